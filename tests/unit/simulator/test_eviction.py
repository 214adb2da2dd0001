# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moments of the eviction subresource that need a disruption controller standing still, held to recorded answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.clock import Clock
from simulator.errors import ApiError
from simulator.objects import set_condition
from simulator.store import Store

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "k8s"
NAME = "web-79fffdbf8f-crb92"


def recorded(name):
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def store():
    """Three ready pods under a budget of maxUnavailable 1 that its controller has seen; no controller runs."""
    store = Store(Clock())
    store.create("namespaces", {"metadata": {"name": "spec1"}})
    for name in (NAME, "web-2", "web-3"):
        spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "n"}
        store.create("pods", {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}, "spec1")
        store.mutate("pods", name, _ready, "spec1", status=True)
    selector = {"matchLabels": {"app": "web"}}
    budget = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": selector}}
    store.create("poddisruptionbudgets", budget, "spec1")
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "expectedPods": 3,
    }
    store.mutate("poddisruptionbudgets", "web", lambda o: o["status"].update(status), "spec1", status=True)
    return store


def _ready(pod):
    pod["status"]["phase"] = "Running"
    set_condition(pod, "Ready", "True", "2026-01-01T00:00:00Z")


def evict(store, **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": NAME, "namespace": "spec1"}}
    store.evict("spec1", NAME, {**body, "deleteOptions": options})


def budget_status(store):
    return store.get("poddisruptionbudgets", "web", "spec1")["status"]


def test_a_budget_the_controller_has_not_seen_refuses_for_ten_seconds(store):
    store.mutate("poddisruptionbudgets", "web", lambda o: o["spec"].update(maxUnavailable=2), "spec1")
    with pytest.raises(ApiError) as refused:
        evict(store)
    want = recorded("evict-stale-generation")
    assert (refused.value.code, refused.value.body) == (want["status"], want["body"])
    assert str(refused.value.retry_after) == want["headers"]["Retry-After"]


def test_a_wrong_uid_is_refused_and_has_spent_the_budget(store):
    want = recorded("evict-wrong-uid-spends-budget")
    with pytest.raises(ApiError) as refused:
        evict(store, preconditions={"uid": "00000000-0000-0000-0000-000000000000"})
    assert (refused.value.code, refused.value.body["reason"]) == (want["status"], want["body"]["reason"])
    for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        assert budget_status(store)[field] == want["pdb_status_after"][field]
    assert list(budget_status(store)["disruptedPods"]) == [NAME]
    pod = store.get("pods", NAME, "spec1")
    assert "deletionTimestamp" not in pod["metadata"]
    assert not any(c["type"] == "DisruptionTarget" for c in pod["status"]["conditions"])


def test_an_eviction_spends_the_budget_at_once(store):
    evict(store)
    want = recorded("pdb-spent")["body"]["status"]
    assert budget_status(store)["disruptionsAllowed"] == want["disruptionsAllowed"]
    assert list(budget_status(store)["disruptedPods"]) == list(want["disruptedPods"])
    assert store.get("pods", NAME, "spec1")["metadata"]["deletionTimestamp"]


def test_a_dry_run_does_not(store):
    evict(store, dryRun=["All"])
    assert budget_status(store)["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in store.get("pods", NAME, "spec1")["metadata"]


def test_a_new_budget_allows_nothing(store):
    selector = {"matchLabels": {"app": "nothing"}}
    body = {"metadata": {"name": "new"}, "spec": {"maxUnavailable": 1, "selector": selector}}
    created = store.create("poddisruptionbudgets", body, "spec1")
    want = recorded("pdb-new")["body"]
    assert created["status"] == want["status"]
    assert created["spec"] == want["spec"]


@pytest.mark.parametrize(
    ("policy", "healthy", "code"),
    [(None, 2, 201), (None, 1, 429), ("IfHealthyBudget", 1, 429), ("AlwaysAllow", 1, 201)],
)
def test_a_pod_that_is_not_ready(store, policy, healthy, code):
    """IfHealthyBudget lets it go while the others are enough, whatever disruptionsAllowed says."""
    not_ready = lambda o: set_condition(o, "Ready", "False", "2026-01-01T00:00:00Z")  # noqa: E731
    store.mutate("pods", NAME, not_ready, "spec1", status=True)
    if policy:
        store.mutate(
            "poddisruptionbudgets", "web", lambda o: o["spec"].update(unhealthyPodEvictionPolicy=policy), "spec1"
        )
    status = {"currentHealthy": healthy, "disruptionsAllowed": 0, "observedGeneration": 2 if policy else 1}
    store.mutate("poddisruptionbudgets", "web", lambda o: o["status"].update(status), "spec1", status=True)
    try:
        evict(store)
        found = 201
    except ApiError as refused:
        found = refused.code
    assert found == code
