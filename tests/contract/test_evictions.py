# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evictions and budgets: who is refused, with which words, and what a budget shows."""

from __future__ import annotations

import pytest

from tests.contract.api import NO_UID, until
from tests.contract.world import World

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.fixture
def world(api, namespace):
    return World(api, namespace)


def uids(world, app):
    return {pod["metadata"]["uid"] for pod in world.pods(app)}


def test_without_a_budget_the_pod_goes_and_is_replaced(api, world):
    pod = world.deploy("free", 1)[0]
    assert api.evict(pod).status == 201
    assert until(lambda: pod["metadata"]["uid"] not in uids(world, "free"))
    assert until(lambda: len(world.running("free")) == 1)


def test_an_evicted_pod_says_why_it_goes(api, world):
    pod = world.pod("m", "ct-0", stuck="true")
    assert api.evict(pod, gracePeriodSeconds=7).status == 201
    found = api.get(f"{world.core}/pods/m").body
    assert found["metadata"]["deletionGracePeriodSeconds"] == 7
    conditions = {c["type"]: c.get("reason") for c in found["status"]["conditions"]}
    assert conditions["DisruptionTarget"] == "EvictionByEvictionAPI"
    assert api.evict(pod).status == 201, "evicting it again is no error"
    api.delete(f"{world.core}/pods/m", {"gracePeriodSeconds": 0})
    assert until(lambda: not world.pods("m"))


@pytest.mark.parametrize(
    ("asked", "grace"), [((7, 30), 7), ((7, 3), 3), ((7, None), 7)], ids=["longer", "shorter", "default"]
)
def test_a_second_eviction_can_only_shorten_the_grace(api, world, asked, grace):
    pod = world.pod("m", "ct-0", stuck="true")
    for seconds in asked:
        api.evict(pod, **({} if seconds is None else {"gracePeriodSeconds": seconds}))
    assert api.get(f"{world.core}/pods/m").body["metadata"]["deletionGracePeriodSeconds"] == grace
    api.delete(f"{world.core}/pods/m", {"gracePeriodSeconds": 0})


def test_a_budget_refuses_and_says_what_it_needs(api, world):
    pod = world.deploy("web", 2)[0]
    world.budget("web", minAvailable=2, allowed=0)
    answer = api.evict(pod)
    assert (answer.status, answer.reason, answer.body["message"]) == (429, "TooManyRequests", REFUSED)
    cause = answer.details["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget web needs 2 healthy pods and has 2 currently"
    assert "Retry-After" not in answer.headers
    assert len(world.running("web")) == 2


def test_two_budgets_are_an_error_of_the_server(api, world):
    pod = world.deploy("twice", 2)[0]
    for name in ("one", "two"):
        world.budget(name, app="twice", minAvailable=0)
    answer = api.evict(pod)
    assert (answer.status, answer.reason) == (500, None)
    assert "more than one PodDisruptionBudget" in answer.body["message"]


@pytest.mark.parametrize(
    ("spec", "replicas", "desired", "allowed"),
    [
        ({"minAvailable": "50%"}, 3, 2, 1),
        ({"maxUnavailable": "30%"}, 4, 2, 2),
        ({"maxUnavailable": 1}, 3, 2, 1),
        ({"minAvailable": 5}, 2, 5, 0),
        ({"maxUnavailable": 0}, 1, 1, 0),
        ({"minAvailable": "0%"}, 1, 0, 1),
    ],
)
def test_budget_arithmetic(world, spec, replicas, desired, allowed):
    world.deploy("m", replicas)
    status = world.budget("m", allowed=allowed, **spec)
    assert (status["desiredHealthy"], status["disruptionsAllowed"], status["expectedPods"]) == (
        desired,
        allowed,
        replicas,
    )


def test_pods_without_a_controller_count_for_nothing_under_max_unavailable(api, world):
    pod = world.pod("bare", "ct-0")
    status = world.budget("bare", maxUnavailable=1)
    assert (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"]) == (0, 0, 1)
    assert status["disruptionsAllowed"] == 0
    assert api.evict(pod).status == 429


@pytest.mark.parametrize(("policy", "status"), [({}, 429), ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 201)])
def test_pods_that_are_not_ready(api, world, policy, status):
    pod = world.deploy("sick", 2, ready="false")[0]
    world.budget("sick", minAvailable=1, allowed=0, **policy)
    assert api.evict(pod).status == status


def test_a_pending_pod_is_in_no_budget(api, world):
    template = world.template("pending")
    template["metadata"]["name"] = "pending"
    template["spec"]["nodeSelector"] = {"no": "where"}
    pod = api.post(f"{world.core}/pods", template).body
    world.budget("pending", minAvailable=1)
    assert api.evict(pod).status == 201
    assert until(lambda: not world.pods("pending"))


def test_a_dry_run_spends_nothing(api, world):
    pod = world.deploy("dry", 2)[0]
    world.budget("dry", maxUnavailable=1, allowed=1)
    assert api.evict(pod, dryRun=["All"]).status == 201
    assert world.budget_status("dry")["disruptionsAllowed"] == 1
    assert len(world.running("dry")) == 2


def test_another_uid_is_refused(api, world):
    pod = world.deploy("dry", 2)[0]
    for answer in (
        api.evict(pod, preconditions={"uid": NO_UID}),
        api.delete(f"{world.core}/pods/{pod['metadata']['name']}", {"preconditions": {"uid": NO_UID}}),
    ):
        assert (answer.status, answer.reason) == (409, "Conflict")
    assert len(world.running("dry")) == 2


def test_a_spent_budget_is_refilled_by_the_replacement(api, world):
    pods = world.deploy("spend", 3)
    world.budget("spend", maxUnavailable=1, allowed=1)
    assert api.evict(pods[0]).status == 201
    assert api.evict(pods[1]).status == 429
    assert until(lambda: world.budget_status("spend")["disruptionsAllowed"] == 1)
    assert api.evict(pods[1]).status == 201


def test_a_finalizer_holds_a_pod(api, world):
    pod = world.pod("fin", "ct-0", finalizers=["example.com/hold"])
    api.evict(pod, gracePeriodSeconds=1)
    assert not until(lambda: not world.pods("fin"), seconds=2), "the pod went with its finalizer"
    assert world.pods("fin")[0]["metadata"]["deletionTimestamp"]
    api.merge(f"{world.core}/pods/fin", {"metadata": {"finalizers": None}})
    assert until(lambda: not world.pods("fin"))
