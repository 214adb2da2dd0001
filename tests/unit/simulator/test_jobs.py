# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs: how they count, end and start anew."""

from __future__ import annotations

import pytest
from stepping import stepping, template

from simulator.controllers.jobs import FINALIZER, INDEX, backoff_s, parse_indexes, write_indexes


def job(app="job", steer=None, policy="Never", **spec):
    pod = template(app, steer=steer, restartPolicy=policy, **spec.pop("pod", {}))
    return {"template": pod, **spec}


def conditions(world, name="job"):
    found = world.status("jobs", name).get("conditions") or []
    return [(c["type"], c["reason"]) for c in found if c["status"] == "True"]


def counts(world, name="job"):
    status = world.status("jobs", name)
    return tuple(status.get(field, 0) for field in ("active", "succeeded", "failed"))


def test_a_job_completes_with_the_conditions_of_1_36():
    async def play(world):
        world.create("jobs", "job", job(steer={"run-s": 10}, completions=3, parallelism=2))
        await world.pass_s(5)
        assert counts(world) == (2, 0, 0)
        assert world.status("jobs", "job")["ready"] == 2
        await world.pass_s(10)
        assert counts(world) == (1, 2, 0)
        await world.pass_s(20)
        assert counts(world) == (0, 3, 0)
        assert conditions(world) == [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        ]
        assert world.status("jobs", "job")["completionTime"]
        assert {p["status"]["phase"] for p in world.pods("job")} == {"Succeeded"}
        labels = world.pods("job")[0]["metadata"]["labels"]
        assert labels["batch.kubernetes.io/job-name"] == "job"
        assert labels["batch.kubernetes.io/controller-uid"] == world.get("jobs", "job")["metadata"]["uid"]

    stepping(play)


def test_failures_wait_longer_each_time_and_end_at_the_limit():
    born = []

    async def play(world):
        world.store.subscribe(
            lambda c: born.append(world.clock.time) if c.resource.plural == "pods" and c.type == "ADDED" else None
        )
        world.create("jobs", "job", job(steer={"start-s": 1, "run-s": 1, "exit-code": 3}, backoffLimit=2))
        await world.pass_s(120)
        assert [round(b - a) for a, b in zip(born, born[1:])] == [12, 22]
        assert counts(world) == (0, 0, 3)
        assert conditions(world) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
        terminated = world.pods("job")[0]["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (terminated["exitCode"], terminated["reason"]) == (3, "Error")

    stepping(play)


@pytest.mark.parametrize(("failures", "expected"), [(0, 0), (1, 10), (2, 20), (6, 320), (7, 600), (50, 600)])
def test_backoff(failures, expected):
    assert backoff_s(failures) == expected


@pytest.mark.parametrize(
    ("policy", "overlap"),
    [(None, 2), ("Failed", 1)],
    ids=["by default beside the one that ends", "or only after it"],
)
def test_an_evicted_pod_counts_as_failed_and_is_replaced(policy, overlap):
    most = []

    async def play(world):
        more = {"podReplacementPolicy": policy} if policy else {}
        world.create("jobs", "job", job(steer={"stop-s": 60}, pod={"grace": 100}, **more))
        await world.pass_s(5)
        world.store.subscribe(lambda c: most.append(sum(p["status"]["phase"] == "Running" for p in world.pods("job"))))
        world.evict(world.pods("job")[0]["metadata"]["name"])
        await world.pass_s(100)
        assert counts(world) == (1, 0, 1)
        assert max(most) == overlap
        assert len(world.pods("job")) == 1

    stepping(play)


def test_pods_are_held_until_they_are_counted_and_go_when_the_job_is_deleted():
    async def play(world):
        world.create("jobs", "job", job(steer={"run-s": 5}, completions=2))
        await world.settle()
        assert world.pods("job")[0]["metadata"]["finalizers"] == [FINALIZER]
        await world.pass_s(8)
        assert [p["metadata"].get("finalizers") for p in world.pods("job")] == [[], [FINALIZER]]
        world.delete("jobs", "job", propagationPolicy="Background")
        await world.pass_s(5)
        assert world.pods("job") == []

    stepping(play)


def test_a_job_that_is_too_late_fails_once_its_pods_have_ended():
    async def play(world):
        world.create("jobs", "job", job(steer={"stop-s": 10}, activeDeadlineSeconds=20))
        await world.pass_s(19)
        assert conditions(world) == []
        await world.pass_s(2)
        assert conditions(world) == [("FailureTarget", "DeadlineExceeded")]
        assert world.status("jobs", "job")["terminating"] == 1
        await world.pass_s(10)
        assert conditions(world)[-1] == ("Failed", "DeadlineExceeded")
        assert counts(world) == (0, 0, 1)

    stepping(play)


def test_a_finished_job_goes_after_its_time_with_its_pods():
    async def play(world):
        world.create("jobs", "job", job(steer={"run-s": 1}, ttlSecondsAfterFinished=60))
        await world.pass_s(50)
        assert conditions(world)[-1][0] == "Complete"
        await world.pass_s(20)
        assert world.get("jobs", "job") is None
        assert world.pods("job") == []

    stepping(play)


def test_a_suspended_job_gives_up_its_pods_and_comes_back():
    async def play(world):
        world.create("jobs", "job", job(suspend=True))
        await world.pass_s(5)
        assert (world.pods("job"), conditions(world)) == ([], [("Suspended", "JobSuspended")])
        resume = lambda o: o["spec"].update(suspend=False)  # noqa: E731
        world.store.mutate("jobs", "job", resume, "default")
        await world.pass_s(5)
        assert counts(world) == (1, 0, 0)
        assert conditions(world) == []
        world.store.mutate("jobs", "job", lambda o: o["spec"].update(suspend=True), "default")
        await world.pass_s(5)
        assert world.pods("job") == []

    stepping(play)


def test_an_indexed_job_runs_each_index_once():
    async def play(world):
        steer = {"run-s": 5}
        world.create("jobs", "job", job(steer=steer, completions=4, parallelism=2, completionMode="Indexed"))
        await world.pass_s(2)
        assert sorted(p["metadata"]["annotations"][INDEX] for p in world.pods("job")) == ["0", "1"]
        assert all(
            p["metadata"]["name"].startswith(f"job-{p['metadata']['labels'][INDEX]}-") for p in world.pods("job")
        )
        await world.pass_s(40)
        assert world.status("jobs", "job")["completedIndexes"] == "0-3"
        assert conditions(world)[-1][0] == "Complete"
        assert len(world.pods("job")) == 4

    stepping(play)


@pytest.mark.parametrize(
    ("indexes", "text"), [(set(), ""), ({3}, "3"), ({0, 1}, "0,1"), ({0, 1, 2, 5, 7, 8}, "0-2,5,7,8")]
)
def test_indexes_as_text(indexes, text):
    assert write_indexes(indexes) == text
    assert parse_indexes(text) == indexes


def test_on_failure_restarts_in_the_pod_up_to_the_limit():
    async def play(world):
        steer = {"start-s": 1, "run-s": 1, "exit-code": 1}
        world.create("jobs", "job", job(steer=steer, policy="OnFailure", backoffLimit=2))
        await world.pass_s(10)
        (pod,) = world.pods("job")
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
        assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        await world.pass_s(60)
        assert conditions(world)[-1] == ("Failed", "BackoffLimitExceeded")

    stepping(play)
