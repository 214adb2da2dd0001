# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The upgrade state machine against the sequences measured on k8s-operator-libs (one reconcile a cell)."""

from __future__ import annotations

import pytest
from fleet import Fleet, cell, view

from simulator.gpu_operator import keys
from simulator.gpu_operator.upgrade import Action, Policy, slots, step

PASS = "done, required, cordon, wait*, pod-deletion*, pod-restart*, validation*, uncordon*, done"
HELD_PASS = "required*i, cordon*i, wait*i, pod-deletion*i, pod-restart*i, validation*i, done*"


def released(count, **policy):
    fleet = Fleet(count, **policy)
    fleet.release()
    return fleet


def cordon(fleet, *names, on=True):
    for name in names:
        fleet[name].cordoned = on


def test_one_node_takes_the_whole_way():
    fleet = released(1)
    fleet.reconcile(12)
    assert fleet.line("n0") == PASS
    assert fleet.evicted == ["n0"]


def test_a_pod_is_restarted_first_and_seen_ready_a_reconcile_later():
    fleet = released(1)
    cells = []
    for _ in range(9):
        fleet.reconcile()
        cells.append(cell(fleet["n0"]))
    assert ", ".join(cells) == (
        "required, cordon, wait*, pod-deletion*, pod-restart*, pod-restart*, validation*, uncordon*, done"
    )


def test_a_failed_node_keeps_the_only_slot():
    fleet = released(4)
    fleet.stuck.add("n0")
    fleet.reconcile(40)
    assert fleet.line("n0") == "done, required, cordon, wait*, pod-deletion*, FAILED*"
    assert [cell(fleet[n]) for n in ("n1", "n2", "n3")] == ["required"] * 3


def test_a_failed_node_narrows_a_rollout_of_two():
    fleet = released(4, max_parallel=2, max_unavailable="100%")
    fleet.stuck.add("n0")
    fleet.until("n1", "done")
    fleet.reconcile(40)
    assert [cell(n) for n in fleet.nodes.values()] == ["FAILED*", "done", "done", "done"]
    assert fleet.evicted == ["n1", "n2", "n3"]


def test_eviction_that_fails_goes_on_with_the_drain_where_it_is_enabled():
    fleet = released(1, drain_enabled=True)
    fleet.stuck.add("n0")
    fleet.reconcile(5)
    assert fleet.line("n0").endswith("pod-deletion*, drain*")
    fleet.stuck.clear()
    fleet.until("n0", "done")
    assert fleet.line("n0").endswith("pod-deletion*, drain*, pod-restart*, validation*, uncordon*, done")


def test_a_validator_that_never_is_ready_ends_in_service():
    fleet = released(1)
    fleet["n0"].validators = [False]
    fleet.until("n0", "FAILED*")
    fleet.until("n0", "done")
    assert fleet.line("n0").endswith("pod-restart*, validation*, FAILED*, uncordon*, done")


def test_without_a_validator_pod_validation_never_ends():
    fleet = released(1)
    fleet["n0"].validators = []
    fleet.until("n0", "validation*")
    fleet.reconcile(40)
    assert cell(fleet["n0"]) == "validation*"


def test_a_human_cordon_after_the_label_is_lost():
    fleet = released(2)
    fleet.reconcile()
    cordon(fleet, "n1")
    fleet.until("n1", "done")
    assert fleet.line("n1").startswith("done, required, cordon*, wait*")


def test_a_human_uncordon_after_the_label_changes_nothing():
    fleet = Fleet(1)
    cordon(fleet, "n0")
    fleet.release()
    fleet.reconcile()
    cordon(fleet, "n0", on=False)
    fleet.until("n0", "done*")
    assert fleet.line("n0").endswith("done*")


def test_cordoned_nodes_start_together_and_block_the_rest():
    fleet = Fleet(8)
    cordon(fleet, "n0", "n1", "n2")
    fleet.release()
    fleet.reconcile(40)
    assert [cell(n) for n in fleet.nodes.values()] == ["done*"] * 3 + ["required"] * 5
    assert {fleet.line(f"n{i}") for i in range(3)} == {f"done, {HELD_PASS}"}


def test_a_skipped_node_waits():
    fleet = released(2)
    fleet["n0"].skip = True
    fleet.reconcile(40)
    assert (fleet.line("n0"), cell(fleet["n1"])) == ("done, required", "done")


def test_skip_does_not_stop_a_node_that_has_started():
    fleet = released(1)
    fleet.until("n0", "cordon")
    fleet["n0"].skip = True
    fleet.reconcile(12)
    assert fleet.line("n0") == PASS


def test_a_reverted_version_cancels_nothing():
    fleet = released(2)
    fleet.until("n0", "wait*")
    fleet.revert()
    fleet.reconcile(40)
    assert [cell(n) for n in fleet.nodes.values()] == ["done", "done"]
    assert fleet.evicted == ["n0", "n1"]


def test_restart_only_spares_the_queued_nodes_after_a_revert():
    fleet = released(2, restart_only=True)
    fleet.until("n0", "wait*")
    fleet.revert()
    fleet.reconcile(40)
    assert fleet.evicted == ["n0"]
    assert fleet.line("n1") == "done, required, pod-restart*, validation*, uncordon*, done"


@pytest.mark.parametrize(
    ("unchanged", "requested", "evicted"), [(True, False, []), (False, False, ["n0"]), (True, True, ["n0"])]
)
def test_restart_only_is_for_an_unchanged_configuration_that_nobody_asked_to_upgrade(unchanged, requested, evicted):
    fleet = Fleet(1, restart_only=True)
    fleet.release(config_unchanged=unchanged)
    fleet["n0"].requested = requested
    fleet.reconcile(12)
    assert (fleet.evicted, cell(fleet["n0"])) == (evicted, "done")


def test_auto_upgrade_switched_off_and_on_takes_the_own_cordon_for_an_older_one():
    fleet = released(1)
    fleet.until("n0", "pod-deletion*")
    fleet["n0"].state = ""
    fleet.reconcile(12)
    assert fleet.line("n0").endswith(HELD_PASS)


def test_a_failed_node_labelled_required_takes_the_whole_way_again():
    fleet = released(1)
    fleet.stuck.add("n0")
    fleet.until("n0", "FAILED*")
    fleet.stuck.clear()
    fleet["n0"].state = keys.REQUIRED
    fleet.reconcile(12)
    assert fleet.line("n0").endswith(
        "FAILED*, cordon*, wait*, pod-deletion*, pod-restart*, validation*, uncordon*, done"
    )


def test_a_failed_node_without_its_label_stays_cordoned():
    fleet = released(1)
    fleet.stuck.add("n0")
    fleet.until("n0", "FAILED*")
    fleet.stuck.clear()
    fleet["n0"].state = ""
    fleet.reconcile(12)
    assert fleet.line("n0").endswith(HELD_PASS)


def test_a_node_that_never_comes_back_keeps_the_slot():
    fleet = released(3, max_unavailable="100%")
    fleet.never.add("n0")
    fleet["n0"].ready = False
    fleet.reconcile(40)
    assert [cell(n) for n in fleet.nodes.values()] == ["pod-restart*", "required", "required"]


def test_nodes_cordoned_before_the_version_are_held_and_later_ones_only_with_the_annotation():
    fleet = Fleet(4)
    for name in ("n2", "n3"):
        fleet[name].skip = True
    cordon(fleet, "n0", "n1")
    fleet.release()
    fleet.reconcile(12)
    assert [cell(n) for n in fleet.nodes.values()] == ["done*", "done*", "required", "required"]
    cordon(fleet, "n2", "n3")
    fleet["n2"].initially_unschedulable = True
    for name in ("n2", "n3"):
        fleet[name].skip = False
    fleet.reconcile(20)
    assert (cell(fleet["n2"]), cell(fleet["n3"])) == ("done*", "done")


def armed(count=3):
    """n1 is cordoned and has lost its state label while all nodes are skipped."""
    fleet = released(count)
    for node in fleet.nodes.values():
        node.skip = True
    fleet.reconcile()
    cordon(fleet, "n1")
    fleet["n1"].state = ""
    fleet.reconcile()
    assert cell(fleet["n1"]) == "required*i"
    fleet["n1"].skip = False
    return fleet


def test_an_armed_node_ends_held():
    fleet = armed()
    fleet.reconcile(12)
    assert fleet.line("n1").endswith(HELD_PASS)
    assert cell(fleet["n2"]) == "required"


def test_an_armed_node_ends_held_although_its_validation_failed():
    fleet = armed()
    fleet["n1"].validators = [False]
    fleet.reconcile(30)
    assert fleet.line("n1").endswith("validation*i, FAILED*i, done*")


def test_no_slots_stop_all_but_cordoned_nodes():
    fleet = released(3, max_unavailable=0)
    fleet.reconcile(5)
    assert [cell(n) for n in fleet.nodes.values()] == ["required"] * 3
    cordon(fleet, "n0", "n1")
    fleet["n1"].state = ""
    fleet.reconcile(20)
    assert [cell(n) for n in fleet.nodes.values()] == ["done", "done*", "required"]


def test_a_requested_upgrade_evicts_but_replaces_no_pod():
    fleet = Fleet(1)
    fleet["n0"].requested = True
    fleet.reconcile(12)
    assert fleet.line("n0") == PASS
    assert (fleet.evicted, fleet["n0"].requested) == (["n0"], False)


@pytest.mark.parametrize(
    ("total", "parallel", "limit", "cells", "expected"),
    [
        (4, 1, "25%", [], 1),
        (4, 0, "25%", [], 1),
        (8, 4, "25%", [], 2),
        (8, 4, "25%", ["done*"], 1),
        (8, 4, "25%", ["done*"] * 2, 0),
        (8, 4, "25%", ["done*"] * 3, 0),
        (5, 3, "25%", [], 2),
        (3, 1, "25%", ["done*"], 0),
        (10, 5, "30%", ["done*", "wait*"], 1),
        (10, 0, "100%", [], 10),
        (10, 4, "3", [], 3),
        (4, 2, "100%", ["wait*"], 1),
        (7, 2, "10%", [], 1),
        (10, 3, "0", [], 0),
        (10, 3, 0, [], 0),
        (4, 2, None, [], 2),
        (4, 1, "100%", ["FAILED*"], 0),
        (4, 3, "100%", ["done*", "done*"], 3),
        (4, 1, "100%", ["done*", "done*", "done*", "required*"], 0),
        (8, 4, 4, ["cordon", "wait*"], 2),
        (8, 4, 3, ["cordon*"], 1),
    ],
)
def test_slots(total, parallel, limit, cells, expected):
    nodes = [view(c, f"n{i}") for i, c in enumerate(cells)]
    nodes += [view("required", f"n{i}") for i in range(len(cells), total)]
    assert slots(nodes, Policy(max_parallel=parallel, max_unavailable=limit)) == expected


def test_a_node_that_is_not_ready_counts_as_unavailable():
    nodes = [view("required", f"n{i}") for i in range(4)]
    nodes[3].ready = False
    assert slots(nodes, Policy()) == 0


@pytest.mark.parametrize(
    ("before", "facts", "verbs"),
    [
        # the annotation first, so that label and annotation together mean: armed
        ("-*", {"pod_in_sync": False}, [("annotate", keys.INITIAL), ("state", keys.REQUIRED)]),
        # done first, the annotation goes later
        ("validation*i", {}, [("state", keys.DONE), ("annotate", keys.INITIAL)]),
        ("FAILED*i", {}, [("state", keys.DONE), ("annotate", keys.INITIAL)]),
        ("uncordon*", {}, [("uncordon", ""), ("state", keys.DONE)]),
        ("cordon", {}, [("cordon", ""), ("state", keys.WAIT)]),
        ("validation*", {"validators": [False]}, [("stamp", keys.VALIDATION_START)]),
        ("validation*", {"validators": [False], "validating_s": 600}, []),
        (
            "validation*",
            {"validators": [False], "validating_s": 601},
            [("state", keys.FAILED), ("annotate", keys.VALIDATION_START)],
        ),
        ("validation*", {"validators": [True, False]}, [("stamp", keys.VALIDATION_START)]),
        ("pod-restart*", {"pod_in_sync": False, "pod_terminating": True}, []),
        ("pod-restart*", {"pod_ready": False, "pod_restarts": 10}, []),
        ("pod-restart*", {"pod_ready": False, "pod_restarts": 11}, [("state", keys.FAILED)]),
        ("FAILED*", {"pod_ready": False}, []),
        ("FAILED*", {"pod_in_sync": False}, []),
        ("FAILED*", {"validators": [False]}, [("state", keys.UNCORDON)]),
        ("done", {}, []),
        ("-", {}, [("state", keys.DONE)]),
    ],
)
def test_writes_of_one_reconcile(before, facts, verbs):
    actions = step([view(before, **facts)], Policy())
    assert [(a.verb, a.value if a.verb == "state" else a.key) for a in actions] == verbs


@pytest.mark.parametrize(
    ("timeout", "facts", "verbs"),
    [
        (0, {"waited_for_pods": 1}, []),
        (0, {"waited_for_pods": 1, "waited_s": 9999}, []),
        (10, {"waited_for_pods": 1}, [("stamp", keys.WAIT_START)]),
        (10, {"waited_for_pods": 1, "waited_s": 10}, []),
        (10, {"waited_for_pods": 1, "waited_s": 11}, [("state", keys.POD_DELETION), ("annotate", keys.WAIT_START)]),
        (10, {"waited_s": 3}, [("annotate", keys.WAIT_START), ("state", keys.POD_DELETION)]),
    ],
)
def test_waiting_for_jobs(timeout, facts, verbs):
    policy = Policy(wait_selector="app=train", wait_timeout_s=timeout)
    actions = step([view("wait*", **facts)], policy)
    assert [(a.verb, a.value if a.verb == "state" else a.key) for a in actions] == verbs


def test_one_reconcile_judges_all_nodes_by_how_they_stood():
    nodes = [view("uncordon*", "a"), view("required", "b")]
    assert Action("state", "b", value=keys.CORDON) not in step(nodes, Policy())
