# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of a pod on its node: start, readiness, devices, programs, restarts, the end, a machine that goes down."""

from __future__ import annotations

import asyncio

import pytest
from stepping import STEER, pod_spec, stepping

from simulator.nodes.containers import diagnostic
from simulator.objects import condition


def run(world, name, gpus=0, steer=None, command=None, grace=30, finalizers=None, **spec):
    body = pod_spec(gpus, grace, **spec)
    if command:
        body["containers"][0]["command"] = command
    annotations = {STEER + key: str(value) for key, value in (steer or {}).items()}
    metadata = {"name": name, "labels": {"app": name}, "annotations": annotations}
    if finalizers:
        metadata["finalizers"] = finalizers
    return world.store.create("pods", {"metadata": metadata, "spec": body}, "default")


def container(world, name):
    (status,) = world.pod(name)["status"]["containerStatuses"]
    return status


def log(world, name):
    return world.store.logs.lines(world.pod(name)["metadata"]["uid"], "c")


def test_a_pod_starts_becomes_ready_and_has_its_addresses():
    async def play(world):
        run(world, "p", steer={"start-s": 10})
        await world.pass_s(9)
        assert world.pod("p")["status"]["phase"] == "Pending"
        assert container(world, "p")["state"] == {"waiting": {"reason": "PodInitializing"}}
        await world.pass_s(2)
        status = world.pod("p")["status"]
        assert status["phase"] == "Running"
        assert {c["type"] for c in status["conditions"] if c["status"] == "True"} == {
            "PodScheduled",
            "PodReadyToStartContainers",
            "Initialized",
            "ContainersReady",
            "Ready",
        }
        assert status["podIP"] == status["podIPs"][0]["ip"]
        assert status["hostIP"]
        found = container(world, "p")
        assert (found["ready"], found["started"], found["restartCount"]) == (True, True, 0)
        assert found["containerID"].startswith("containerd://")
        assert "startedAt" in found["state"]["running"]

    stepping(play)


def test_a_pod_that_never_becomes_ready():
    async def play(world):
        run(world, "p", steer={"ready": "false"})
        await world.pass_s(100)
        assert world.pod("p")["status"]["phase"] == "Running"
        assert not condition(world.pod("p"), "Ready")

    stepping(play)


ENDS = [  # stop-s, grace, grace asked for, gone after, exit code
    ("in time", 5, 30, None, 5, 143),
    ("killed", 60, 30, None, 30, 137),
    ("with less grace", 20, 30, 10, 10, 137),
]


@pytest.mark.parametrize(("what", "stop", "grace", "asked", "after", "code"), ENDS, ids=[row[0] for row in ENDS])
def test_the_end_of_a_pod(what, stop, grace, asked, after, code):
    ended = []

    async def play(world):
        run(world, "p", grace=grace, steer={"stop-s": stop})
        await world.pass_s(10)
        world.store.subscribe(
            lambda change: (
                ended.append((change.type, world.clock.time, change.object))
                if change.resource.plural == "pods"
                else None
            )
        )
        world.delete("pods", "p", **({"gracePeriodSeconds": asked} if asked is not None else {}))
        await world.pass_s(100)
        kind, when, pod = ended[-1]
        assert (kind, when) == ("DELETED", 10 + after)
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
        assert pod["status"]["phase"] == "Failed"

    stepping(play)


def test_a_shorter_grace_while_it_ends_counts_from_the_start():
    async def play(world):
        run(world, "p", grace=300, steer={"stop-s": 200})
        await world.pass_s(10)
        world.delete("pods", "p")
        await world.pass_s(20)
        world.delete("pods", "p", gracePeriodSeconds=30)
        await world.pass_s(9)
        assert world.pod("p")
        await world.pass_s(2)
        assert world.pod("p") is None

    stepping(play)


def test_what_keeps_a_pod_from_going():
    async def play(world):
        run(world, "stuck", steer={"stuck": "true", "stop-s": 1})
        run(world, "held", finalizers=["example.com/keep"])
        run(world, "forced", steer={"stuck": "true"})
        await world.pass_s(10)
        for name in ("stuck", "held"):
            world.delete("pods", name)
        world.delete("pods", "forced", gracePeriodSeconds=0)
        await world.pass_s(600)
        assert world.pod("forced") is None
        assert world.pod("stuck")["status"]["phase"] == "Running"
        held = world.pod("held")
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert held["status"]["phase"] == "Failed"
        world.store.mutate("pods", "held", lambda o: o["metadata"].update(finalizers=[]), "default")
        free = lambda o: o["metadata"]["annotations"].update({STEER + "stuck": "false"})  # noqa: E731
        world.store.mutate("pods", "stuck", free, "default")
        await world.pass_s(5)
        assert (world.pod("held"), world.pod("stuck")) == (None, None)

    stepping(play)


REJECTED = [
    ("too many devices", {"gpus": 5}, "UnexpectedAdmissionError", "Requested: 5, Available: 4, which is unexpected"),
    ("another node's", {"nodeSelector": {"pool": "x"}}, "NodeAffinity", "Predicate NodeAffinity failed"),
]


@pytest.mark.parametrize(("what", "asked", "reason", "says"), REJECTED, ids=[row[0] for row in REJECTED])
def test_a_pinned_pod_that_does_not_fit_fails_at_once(what, asked, reason, says):
    async def play(world):
        run(world, "first", gpus=4, nodeName="a")
        await world.settle()
        run(world, "second", nodeName="a", **asked)
        await world.pass_s(1)
        status = world.pod("second")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", reason)
        assert says in status["message"]

    stepping(play)


def test_devices_are_free_again_once_the_pod_has_ended():
    async def play(world):
        run(world, "first", gpus=8, nodeName="a", steer={"run-s": 5}, restartPolicy="Never")
        await world.pass_s(10)
        assert world.pod("first")["status"]["phase"] == "Succeeded"
        run(world, "second", gpus=8, nodeName="a")
        await world.pass_s(5)
        assert world.pod("second")["status"]["phase"] == "Running"

    stepping(play)


PROGRAMS = [  # policy, exit code, phase after 60 s, restarts
    ("Never", 0, "Succeeded", 0),
    ("Never", 1, "Failed", 0),
    ("OnFailure", 0, "Succeeded", 0),
    ("OnFailure", 1, "Running", 3),
    ("Always", 0, "Running", 3),
]


@pytest.mark.parametrize(("policy", "code", "phase", "restarts"), PROGRAMS)
def test_what_follows_the_end_of_a_program(policy, code, phase, restarts):
    async def play(world):
        run(world, "p", restartPolicy=policy, steer={"start-s": 1, "run-s": 2, "exit-code": code})
        await world.pass_s(60)
        assert world.pod("p")["status"]["phase"] == phase
        found = container(world, "p")
        assert found["restartCount"] == restarts
        if restarts:  # ends after 3 s, then waits 10, 20, 40 s
            assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            assert found["lastState"]["terminated"]["exitCode"] == code
        else:
            assert found["state"]["terminated"]["exitCode"] == code

    stepping(play)


def test_a_pod_that_is_active_too_long_fails():
    async def play(world):
        run(world, "p", activeDeadlineSeconds=30)
        await world.pass_s(29)
        assert world.pod("p")["status"]["phase"] == "Running"
        await world.pass_s(2)
        status = world.pod("p")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")

    stepping(play)


TRAIN = {"behaviour": "train", "start-s": 1, "step-s": 2, "checkpoint-every": 10, "checkpoint-key": "t"}


@pytest.mark.parametrize(
    ("what", "grace", "resumes", "lost"),
    [("the checkpoint fits into the grace", 60, 17, 0), ("it does not", 20, 10, 7)],
)
def test_a_training_goes_on_from_its_checkpoint(what, grace, resumes, lost):
    async def play(world):
        steer = {**TRAIN, "checkpoint-s": 40}
        run(world, "first", grace=grace, steer=steer)
        await world.pass_s(35.5)
        training = world.kubelet.trainings["t"]
        assert (training.step, training.checkpoint) == (17, 10)
        assert log(world, "first")[:2] == ["starting at step 0", "step 10: checkpoint saved"]
        lines = log(world, "first")
        world.delete("pods", "first")
        await world.pass_s(70)
        assert world.pod("first") is None
        assert "SIGTERM at step 17" in lines[2]
        assert lines[-1] == ("killed" if lost else "step 17: checkpoint saved, exiting")
        run(world, "second", steer=steer)
        await world.pass_s(2)
        assert log(world, "second") == [f"resuming from step {resumes}: the last checkpoint ({lost} steps to repeat)"]
        assert (training.resumed, training.lost_steps) == (1, lost)

    stepping(play)


def test_a_training_finishes():
    async def play(world):
        run(world, "p", steer={**TRAIN, "steps": 5}, restartPolicy="Never")
        await world.pass_s(20)
        assert world.pod("p")["status"]["phase"] == "Succeeded"
        assert log(world, "p")[-1] == "step 5: finished"

    stepping(play)


COMMANDS = [  # command, args, (tool, argv, limit)
    (["dcgmi", "diag", "-r", "1"], [], ("dcgmi", ["dcgmi", "diag", "-r", "1"], None)),
    (["timeout", "900", "dcgmi", "diag"], [], ("dcgmi", ["dcgmi", "diag"], 900)),
    (["timeout", "--kill-after=30", "15m", "/usr/bin/dcgmi", "diag"], [], ("dcgmi", ["/usr/bin/dcgmi", "diag"], 900)),
    (["timeout", "-k", "10", "60", "all_reduce_perf"], ["-g", "8"], ("all_reduce_perf", ["all_reduce_perf", "-g", "8"], 60)),
    (["sh", "-c", "timeout 60 dcgmi diag -r 1 -j | tee log"], [], ("dcgmi", ["dcgmi", "diag", "-r", "1", "-j"], 60)),
    (["nice", "-n", "5", "dcgmi", "diag"], [], ("dcgmi", ["dcgmi", "diag"], None)),
    (["python", "train.py"], [], None),
    (None, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("command", "args", "expected"), COMMANDS)
def test_diagnostics_are_known_by_their_command(command, args, expected):
    assert diagnostic({"command": command, "args": args}) == expected


def test_a_diagnostic_prints_to_its_log_and_ends_the_pod():
    async def play(world):
        run(world, "p", 8, command=["timeout", "900", "dcgmi", "diag", "-r", "1", "-j"], restartPolicy="Never")
        await world.pass_s(120)
        assert world.pod("p")["status"]["phase"] == "Succeeded"
        assert container(world, "p")["state"]["terminated"]["exitCode"] == 0
        assert any("DCGM" in line for line in log(world, "p"))

    stepping(play)


def test_a_diagnostic_that_hangs_is_ended_by_its_time_limit():
    async def play(world):
        world.machines["a"].inject("hung_diag", {})
        command = ["timeout", "300", "dcgmi", "diag", "-r", "3", "-j"]
        run(world, "p", 8, command=command, restartPolicy="Never", nodeName="a")
        await world.pass_s(299)
        assert world.pod("p")["status"]["phase"] == "Running"
        await world.pass_s(5)
        assert container(world, "p")["state"]["terminated"]["exitCode"] == 124

    stepping(play)


def test_a_machine_that_goes_down_is_missed_after_a_while_and_starts_its_pods_again():
    async def play(world):
        run(world, "p", nodeName="a", steer={"start-s": 1})
        await world.pass_s(65)
        world.machines["a"].alive = False
        await world.pass_s(45)
        assert condition(world.store.get("nodes", "a"), "Ready")
        await world.pass_s(30)
        node = world.store.get("nodes", "a")
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "Unknown"
        assert {t["key"] for t in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
        assert not condition(world.pod("p"), "Ready")
        assert world.pod("p")["status"]["phase"] == "Running"
        world.machines["a"].alive = True
        await world.pass_s(30)
        assert condition(world.store.get("nodes", "a"), "Ready")
        assert "taints" not in world.store.get("nodes", "a")["spec"]
        assert condition(world.pod("p"), "Ready")
        assert container(world, "p")["restartCount"] == 1

    stepping(play)


def test_a_dead_kubelet_confirms_no_end():
    async def play(world):
        run(world, "p", nodeName="a")
        await world.pass_s(5)
        world.machines["a"].alive = False
        await world.pass_s(20)
        world.delete("pods", "p")
        await world.pass_s(300)
        assert world.pod("p")["metadata"]["deletionTimestamp"]
        world.machines["a"].alive = True
        await world.pass_s(20)
        assert world.pod("p") is None

    stepping(play)


def test_a_lease_is_renewed_often_and_the_node_written_seldom():
    async def play(world):
        written = {"leases": 0, "nodes": 0}

        def count(change):
            if change.object["metadata"]["name"] == "a" and change.resource.plural in written:
                written[change.resource.plural] += 1

        world.store.subscribe(count)
        await world.pass_s(600)
        assert written == {"leases": 60, "nodes": 10}
        spec = world.store.get("leases", "a", "kube-node-lease")["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 40)

    stepping(play)


def test_a_registered_play_is_used_and_cancelled_by_sigterm():
    told = []

    async def operand(play):
        told.append("started")
        await play.initializing()
        await play.running(ready=False)
        await play.restart("not yet")
        await play.running(ready=True)
        try:
            await asyncio.Event().wait()
        finally:
            told.append("stopped")

    async def play(world):
        world.kubelet.register(lambda pod: pod["metadata"]["name"] == "mine", operand)
        run(world, "mine")
        run(world, "other")
        await world.pass_s(5)
        assert told == ["started"]
        assert condition(world.pod("mine"), "Ready")
        assert container(world, "mine")["restartCount"] == 1
        world.delete("pods", "mine")
        await world.pass_s(5)
        assert told == ["started", "stopped"]
        assert world.pod("mine") is None

    stepping(play)
