# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The figures of a PodDisruptionBudget."""

from __future__ import annotations

import pytest
from stepping import stepping, template, workload

from simulator.errors import ApiError

LIMITS = [  # replicas, budget, (expected, desired, allowed)
    ("maxUnavailable 1 of 3", 3, {"maxUnavailable": 1}, (3, 2, 1)),
    ("a percentage of what may be out is rounded up", 3, {"maxUnavailable": "10%"}, (3, 2, 1)),
    ("a percentage of what must be there too", 3, {"minAvailable": "50%"}, (3, 2, 1)),
    ("all must be there", 3, {"minAvailable": "100%"}, (3, 3, 0)),
    ("none may be out", 3, {"maxUnavailable": 0}, (3, 3, 0)),
    ("more may be out than there are", 3, {"maxUnavailable": 5}, (3, 0, 3)),
    ("minAvailable 2", 3, {"minAvailable": 2}, (3, 2, 1)),
    ("minAvailable above what there is", 3, {"minAvailable": 4}, (3, 4, 0)),
    ("no pods at all", 0, {"maxUnavailable": 1}, (0, 0, 0)),
]


def figures(world, name="budget"):
    status = world.status("poddisruptionbudgets", name)
    return tuple(status[k] for k in ("expectedPods", "desiredHealthy", "disruptionsAllowed"))


def reason(world, name="budget"):
    (found,) = world.status("poddisruptionbudgets", name)["conditions"]
    return found["reason"]


def budget(world, spec, app="web"):
    selector = {"matchLabels": {"app": app}}
    world.create("poddisruptionbudgets", "budget", {"selector": selector, **spec})


@pytest.mark.parametrize(("what", "replicas", "spec", "expected"), LIMITS, ids=[row[0] for row in LIMITS])
def test_figures(what, replicas, spec, expected):
    async def play(world):
        world.create("deployments", "web", workload("web", replicas))
        budget(world, spec)
        await world.pass_s(5)
        assert figures(world) == expected
        assert reason(world) == ("SufficientPods" if expected[2] else "InsufficientPods")
        assert world.status("poddisruptionbudgets", "budget")["observedGeneration"] == 1

    stepping(play)


def test_an_eviction_is_followed_until_the_replacement_is_ready():
    async def play(world):
        world.create("deployments", "web", workload("web", 3, steer={"start-s": 10, "stop-s": 5}))
        budget(world, {"maxUnavailable": 1})
        await world.pass_s(15)
        world.evict(world.pods("web")[0]["metadata"]["name"])
        assert figures(world)[2] == 0
        await world.pass_s(9)
        assert figures(world)[2] == 0
        assert "disruptedPods" not in world.status("poddisruptionbudgets", "budget")
        await world.pass_s(2)
        assert figures(world)[2] == 1

    stepping(play)


def test_an_eviction_that_was_refused_after_it_had_spent_blocks_for_two_minutes():
    async def play(world):
        world.create("deployments", "web", workload("web", 3))
        budget(world, {"maxUnavailable": 1})
        await world.pass_s(5)
        name = world.pods("web")[0]["metadata"]["name"]
        body = {"metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": "another"}}}
        with pytest.raises(ApiError):
            world.store.evict("default", name, body)
        await world.pass_s(119)
        assert figures(world)[2] == 0
        assert list(world.status("poddisruptionbudgets", "budget")["disruptedPods"]) == [name]
        await world.pass_s(2)
        assert figures(world)[2] == 1
        assert "disruptedPods" not in world.status("poddisruptionbudgets", "budget")

    stepping(play)


def test_pods_of_a_job_cannot_be_counted_by_share():
    """Nothing is allowed, and the generation stays unobserved, so that evictions are told to come again (1.36)."""

    async def play(world):
        world.create("jobs", "web", {"template": template("web", restartPolicy="Never"), "parallelism": 2})
        budget(world, {"maxUnavailable": 1})
        await world.pass_s(5)
        status = world.status("poddisruptionbudgets", "budget")
        assert status["disruptionsAllowed"] == 0
        assert status.get("observedGeneration", 0) == 0
        (found,) = status["conditions"]
        assert found["reason"] == "SyncFailed"
        assert found["message"] == "jobs.batch does not implement the scale subresource"

    stepping(play)


def test_an_absolute_minimum_counts_pods_of_any_owner():
    async def play(world):
        world.create("jobs", "web", {"template": template("web", restartPolicy="Never"), "parallelism": 2,
                                     "completions": 2})  # fmt: skip
        budget(world, {"minAvailable": 1})
        await world.pass_s(5)
        assert figures(world) == (2, 1, 1)

    stepping(play)


def test_pods_without_an_owner_do_not_count_towards_a_share():
    async def play(world):
        world.create("deployments", "web", workload("web", 2))
        alone = template("web")
        world.store.create("pods", {**alone, "metadata": {**alone["metadata"], "name": "alone"}}, "default")
        budget(world, {"maxUnavailable": 1})
        await world.pass_s(5)
        assert figures(world) == (2, 1, 2)

    stepping(play)


def test_the_figures_follow_scaling_labels_and_a_changed_budget():
    async def play(world):
        world.create("deployments", "web", workload("web", 4))
        budget(world, {"maxUnavailable": 1})
        await world.pass_s(5)
        world.store.mutate("deployments", "web", lambda o: o["spec"].update(replicas=6), "default")
        await world.pass_s(5)
        assert figures(world) == (6, 5, 1)
        world.store.mutate("poddisruptionbudgets", "budget", lambda o: o["spec"].update(maxUnavailable=3), "default")
        await world.settle()
        assert figures(world) == (6, 3, 3)
        name = world.pods("web")[0]["metadata"]["name"]
        world.store.mutate("pods", name, lambda o: o["metadata"]["labels"].update(app="apart"), "default")
        await world.settle()
        assert world.status("poddisruptionbudgets", "budget")["currentHealthy"] == 5

    stepping(play)
