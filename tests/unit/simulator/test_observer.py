# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each rule of the observer: what it must see, and what it must leave alone."""

from __future__ import annotations

import pytest

from simulator.observer import rules
from tests.unit.simulator.watched import OPERATOR, PERSON, PRODUCT, SCHEDULER, STAMP, Watched


@pytest.fixture
def seen():
    return Watched()


# -- pdb-broken
@pytest.mark.parametrize("actor", [PRODUCT, PERSON, OPERATOR])
@pytest.mark.parametrize("grace", [30, 0])
def test_ending_a_healthy_pod_below_its_budget_is_seen(seen, actor, grace):
    seen.pod("one", "a")
    seen.pod("two", "b")
    seen.budget(2)
    seen.end(actor, "one", grace)
    assert seen.rules == ["pdb-broken"]
    assert seen.observer.violations[0] == {
        "rule": "pdb-broken",
        "message": "one was ended: budget default/x wants 2 healthy pods and has 1",
        "pdb": "default/x",
        "pod": "default/one",
        "actor": actor,
        "at": seen.observer.violations[0]["at"],
    }


BUDGETS_KEPT = [
    ("the budget allows it", 1, PRODUCT, True),
    ("the pod was not healthy before", 2, PRODUCT, False),
    ("a controller scales down", 2, "controller/replicasets", True),
    ("the node is gone", 2, "controller/taint-eviction", True),
]


@pytest.mark.parametrize(("why", "minimum", "actor", "ready"), BUDGETS_KEPT, ids=[case[0] for case in BUDGETS_KEPT])
def test_a_budget_is_not_broken_when(seen, why, minimum, actor, ready):
    seen.pod("one", "a", ready=ready)
    seen.pod("two", "b")
    seen.budget(minimum)
    seen.end(actor, "one")
    assert seen.rules == []


def test_the_end_of_a_pod_is_counted_once(seen):
    seen.pod("one", "a")
    seen.budget(1)
    seen.end(PRODUCT, "one")
    seen.end("kubelet/a", "one", 0)
    assert seen.rules == ["pdb-broken"]


# -- started-on-held
def test_a_gpu_pod_started_on_a_held_node_is_seen(seen):
    seen.hold("a")
    seen.pod("one", "a")
    assert seen.rules == ["started-on-held"]
    assert seen.observer.violations[0]["actor"] == SCHEDULER


def test_a_gpu_pod_started_on_an_unproven_node_is_seen(seen):
    seen.cordon(PERSON, "a")
    seen.load("a")
    seen.pod("one", "a")
    assert seen.rules == ["started-on-held"]
    assert "unproven" in seen.observer.violations[0]["message"]


def test_a_hold_whose_annotation_cannot_be_read_is_a_hold(seen):
    seen.edit(PERSON, "a", lambda o: o["metadata"].update(annotations={"lifecycle.gpuops.io/hold": "{"}))
    seen.pod("one", "a")
    assert seen.rules == ["started-on-held"]


STARTS = [
    ("no GPUs", {"gpus": 0}),
    ("a diagnostic of the product", {"namespace": "gpuops-system", "gpus": 8}),
    ("the operator's validator", {"namespace": "gpu-operator"}),
    ("another node", {"node": "b"}),
]


@pytest.mark.parametrize(("why", "pod"), STARTS, ids=[case[0] for case in STARTS])
def test_a_start_beside_a_hold_is_fine(seen, why, pod):
    seen.hold("a")
    seen.pod("one", **{"node": "a", **pod})
    assert seen.rules == []


def test_a_pod_that_was_there_before_the_hold_is_fine(seen):
    seen.pod("one", "a")
    seen.hold("a")
    seen.store.mutate("pods", "one", lambda o: o["metadata"].update(annotations={"x": "y"}), "default")
    assert seen.rules == []


# -- change-under-load
@pytest.mark.parametrize("kind", ["driver", "mig", "firmware", "reset", "reboot"])
def test_a_change_while_a_gpu_pod_runs_is_seen(seen, kind):
    seen.pod("one", "a")
    seen.cordon(PRODUCT, "a")
    seen.machines["a"].note(kind, OPERATOR, STAMP)
    assert seen.rules == ["change-under-load"]
    assert "default/one" in seen.observer.violations[0]["message"]


IDLE = [
    ("no GPUs", {"gpus": 0}),
    ("finished", {"phase": "Succeeded"}),
    ("not started yet", {"phase": "Pending", "ready": False}),
    ("another node", {"node": "b"}),
    ("a diagnostic of the product", {"namespace": "gpuops-system"}),
]


@pytest.mark.parametrize(("why", "pod"), IDLE, ids=[case[0] for case in IDLE])
def test_a_change_beside_other_pods_is_fine(seen, why, pod):
    seen.pod("one", **{"node": "a", **pod})
    seen.cordon(PRODUCT, "a")
    seen.machines["a"].note("reboot", OPERATOR, STAMP)
    assert seen.rules == []


# -- unproven-in-service
def test_a_driver_loaded_on_a_node_in_service_is_seen_once(seen):
    seen.load("a")
    assert seen.rules == ["unproven-in-service"]


def test_a_release_without_a_record_is_seen(seen):
    seen.hold("a")
    seen.load("a")
    seen.release("a")
    assert seen.rules == ["unproven-in-service"]


def test_an_annotation_alone_keeps_nothing_off(seen):
    seen.hold("a")
    seen.load("a")
    seen.uncordon(PRODUCT, "a")
    assert seen.rules == ["unproven-in-service"]


RECORDS = [
    ("a failed one", {"verdict": "fail"}),
    ("an unknown one", {"verdict": "unknown"}),
    ("no test behind it", {"test": None}),
    ("a skipped test behind it", {"test": "unknown"}),
    ("the old driver", {"driver": "575.57.08"}),
    ("another kind", {"kind": "Change"}),
    ("a node of that name before this one", {"uid": "other"}),
]


@pytest.mark.parametrize(("why", "record"), RECORDS, ids=[case[0] for case in RECORDS])
def test_a_record_that_proves_nothing(seen, why, record):
    seen.hold("a")
    seen.load("a")
    seen.record("a", **record)
    seen.release("a")
    assert seen.rules == ["unproven-in-service"]


def test_a_record_from_before_the_change_proves_nothing(seen):
    seen.hold("a")
    seen.record("a")
    seen.load("a")
    seen.release("a")
    assert seen.rules == ["unproven-in-service"]


def test_a_passing_record_of_the_current_state_proves(seen):
    seen.hold("a")
    seen.load("a")
    seen.record("a")
    seen.release("a")
    seen.pod("one", "a")
    assert seen.rules == []


def test_a_second_change_wants_a_second_record(seen):
    seen.hold("a")
    seen.load("a")
    seen.record("a")
    seen.machines["a"].note("reboot", PRODUCT, STAMP)
    seen.release("a")
    assert seen.rules == ["unproven-in-service"]


def test_a_release_without_any_change_needs_no_record(seen):
    seen.hold("a")
    seen.release("a")
    assert seen.rules == []


def test_a_node_that_comes_back_with_another_uid_is_unproven(seen):
    seen.store.delete("nodes", "a")
    seen.store.create("nodes", {"metadata": {"name": "a"}})
    seen.pod("one", "a")
    assert seen.rules == ["started-on-held"]


# -- deleted-with-pods
def test_a_node_deleted_under_its_pods_is_seen(seen):
    seen.pod("one", "a", gpus=0)
    with seen.store.acting(PRODUCT):
        seen.store.delete("nodes", "a")
    assert seen.rules == ["deleted-with-pods"]


STAYS = [
    ("agents only", {"owner": "DaemonSet"}),
    ("finished", {"phase": "Failed"}),
    ("the machinery", {"namespace": "gpu-operator"}),
    ("elsewhere", {"node": "b"}),
]


@pytest.mark.parametrize(("why", "pod"), STAYS, ids=[case[0] for case in STAYS])
def test_a_drained_node_may_be_deleted(seen, why, pod):
    seen.pod("one", **{"node": "a", **pod})
    seen.store.delete("nodes", "a")
    assert seen.rules == []


# -- budget-of-nodes
def test_a_hold_beyond_the_budget_is_seen(seen):
    seen.hold("a")
    seen.hold("b")
    assert seen.rules == ["budget-of-nodes"]
    assert "2 nodes are out (a, b), 1 may be" in seen.observer.violations[0]["message"]


@pytest.mark.parametrize("out", ["cordoned", "not ready"])
def test_a_hold_beside_a_node_that_is_out_anyway_is_seen(seen, out):
    if out == "cordoned":
        seen.cordon(PERSON, "a")
    else:
        seen.ready("a", "Unknown")
    seen.hold("b")
    assert seen.rules == ["budget-of-nodes"]


def test_holds_the_budget_has_no_say_in():
    # Within it; on a node that was out already; on one that is visibly broken; by hand.
    seen = Watched(("a", "b", "c", "d", "e"), max_unavailable=1)
    seen.hold("a")
    seen.cordon(PERSON, "b")
    seen.hold("b")
    seen.machines["c"].inject("xid", {"xid": 79, "gpu": 2})
    seen.hold("c")
    seen.cordon(PERSON, "d")
    seen.hold("e", actor=PERSON)
    assert seen.rules == []


# -- foreign-cordon
@pytest.mark.parametrize(
    ("by", "off"),
    [(PERSON, PRODUCT), (PERSON, OPERATOR), (OPERATOR, PRODUCT), (PRODUCT, OPERATOR), ("scenario", PRODUCT)],
)
def test_somebody_elses_cordon_taken_off_is_seen(seen, by, off):
    seen.cordon(by, "a")
    seen.uncordon(off, "a")
    assert seen.rules == ["foreign-cordon"]
    assert by in seen.observer.violations[0]["message"]


@pytest.mark.parametrize(
    ("by", "off"), [(PRODUCT, "gpuops-lifecycle/9"), (OPERATOR, OPERATOR), (PERSON, "curl/8"), (PRODUCT, PERSON)]
)
def test_a_cordon_may_be_taken_off_by_its_own_and_by_people(seen, by, off):
    seen.cordon(by, "a")
    seen.uncordon(off, "a")
    assert seen.rules == []


# -- foreign-taint
def test_somebody_elses_taint_taken_off_is_seen(seen):
    seen.taint(PERSON, "a", "example.com/quarantine")
    seen.taint(PRODUCT, "a", "lifecycle.gpuops.io/hold")
    seen.edit(PRODUCT, "a", lambda o: o["spec"].pop("taints"))
    assert seen.rules == ["foreign-taint"]
    assert "example.com/quarantine" in seen.observer.violations[0]["message"]


def test_ones_own_taint_may_be_taken_off(seen):
    seen.taint(PERSON, "a", "example.com/quarantine")
    seen.taint(PRODUCT, "a", "lifecycle.gpuops.io/hold")
    seen.untaint(PRODUCT, "a", "lifecycle.gpuops.io/hold")
    seen.untaint(PERSON, "a", "example.com/quarantine")
    assert seen.rules == []


# -- wiped-while-member
def test_disks_wiped_under_a_node_are_seen(seen):
    seen.machines["a"].note("wipe", PRODUCT, STAMP)
    assert seen.rules == ["wiped-while-member"]


def test_disks_may_be_wiped_once_the_node_is_gone(seen):
    seen.store.delete("nodes", "a")
    seen.machines["a"].note("wipe", PRODUCT, STAMP)
    assert seen.rules == []


# -- the observer itself
def test_a_rule_that_fails_is_a_problem_and_no_silence(seen, monkeypatch, capsys):
    def broken(ledger, change):
        raise ValueError("no such thing")

    monkeypatch.setitem(rules.OF_CHANGES, "nodes", (broken,))
    seen.cordon(PERSON, "a")
    assert seen.store.get("nodes", "a")["spec"]["unschedulable"] is True
    assert seen.observer.problems == ["observer: broken: ValueError('no such thing')"]
    assert "Traceback" in capsys.readouterr().err


def test_listeners_hear_of_each_violation(seen):
    heard = []
    seen.observer.listeners.append(heard.append)
    seen.load("a")
    assert heard == seen.observer.violations
    assert len(heard) == 1
