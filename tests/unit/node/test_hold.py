# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking and giving back a hold: release only your own, the last one out uncordons, everything in one patch."""

from __future__ import annotations

import pytest
from nodes import GPU_TAINT, TAINT, UNSCHEDULABLE, apply, entry, node

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import hold


def take(obj, owner="gpuops", run="run-1", taint=True):
    return hold.take(obj, owner, "why", "driver", run, "2026-12-01T12:00:00Z", taint, {"compute": "x"})


def give_back(obj, owner="gpuops", label="qualified"):
    return hold.give_back(obj, owner, label)


def taint_keys(obj):
    return [t["key"] for t in (obj["spec"].get("taints") or [])]


def test_taking_is_one_patch_bound_to_the_version_it_was_decided_on():
    patch = take(node())
    after = apply(node(), patch)
    assert patch["metadata"]["resourceVersion"] == "7"
    assert after["spec"]["unschedulable"] is True
    assert taint_keys(after) == ["nvidia.com/gpu", hold.keys.HOLD_TAINT]
    assert hold.entries(after)[0]["cordoned_by_us"] is True
    assert after["metadata"]["labels"]["lifecycle.gpuops.io/stage"] == "upgrading"


def test_taking_twice_changes_nothing():
    after = apply(node(), take(node()))
    assert take(after) is None


def test_another_run_of_the_same_owner_goes_on_and_remembers_whom_it_followed():
    after = apply(node(), take(node()))
    later = apply(after, take(after, run="run-2"))
    mine = hold.entries(later)[0]
    assert (mine["run"], mine["taken_over_from"], mine["since"]) == ("run-2", "run-1", "2026-12-01T12:00:00Z")
    assert len(hold.entries(later)) == 1


@pytest.mark.parametrize(
    ("before", "owner", "unschedulable", "tainted", "holders"),
    [
        (node(cordoned=True, holds=[entry()], taints=[GPU_TAINT, TAINT]), "gpuops", False, False, []),
        (node(cordoned=True, holds=[entry(by_us=False)], taints=[GPU_TAINT, TAINT]), "gpuops", True, False, []),
        (
            node(cordoned=True, holds=[entry(), entry("other", False)], taints=[GPU_TAINT, TAINT]),
            "gpuops",
            True,
            True,
            ["other"],
        ),
        (
            node(cordoned=True, holds=[entry("other"), entry()], taints=[GPU_TAINT, TAINT]),
            "gpuops",
            True,
            True,
            ["other"],
        ),
    ],
    ids=["own cordon", "somebody else's cordon stays", "another holder stays, cordon passes to it", "not the last one"],
)
def test_giving_back(before, owner, unschedulable, tainted, holders):
    after = apply(before, give_back(before, owner))
    assert bool(after["spec"].get("unschedulable")) is unschedulable
    assert (hold.keys.HOLD_TAINT in taint_keys(after)) is tainted
    assert [e["owner"] for e in hold.entries(after)] == holders
    assert "nvidia.com/gpu" in taint_keys(after)


def test_the_cordon_is_taken_off_by_whoever_leaves_last():
    both = node(cordoned=True, holds=[entry("first"), entry("second", False)])
    one = apply(both, give_back(both, "first"))
    none = apply(one, give_back(one, "second"))
    assert not none["spec"].get("unschedulable")


def test_a_stranger_gives_nothing_back():
    assert give_back(node(cordoned=True, holds=[entry("other")])) is None
    assert give_back(node(cordoned=True)) is None


def test_taints_of_others_and_the_node_controller_are_carried_along():
    kured = {"key": "weave.works/kured", "effect": "NoSchedule"}
    before = node(cordoned=True, taints=[GPU_TAINT, kured, UNSCHEDULABLE])
    held = apply(before, take(before))
    assert taint_keys(held) == ["nvidia.com/gpu", "weave.works/kured", UNSCHEDULABLE["key"], hold.keys.HOLD_TAINT]
    back = apply(held, give_back(held))
    assert taint_keys(back) == ["nvidia.com/gpu", "weave.works/kured", UNSCHEDULABLE["key"]]


def test_without_the_taint_the_node_is_held_by_cordon_and_annotation():
    after = apply(node(), take(node(), taint=False))
    assert hold.keys.HOLD_TAINT not in taint_keys(after)
    assert after["spec"]["unschedulable"] is True


def test_a_node_that_somebody_opened_is_cordoned_again():
    opened = node(cordoned=False, holds=[entry(by_us=False)])
    after = apply(opened, take(opened))
    assert after["spec"]["unschedulable"] is True
    assert hold.entries(after)[0]["cordoned_by_us"] is True


def test_a_failed_node_is_not_relabelled_by_holding_it():
    failed = node(labels={"lifecycle.gpuops.io/qualification": "failed"})
    assert apply(failed, take(failed))["metadata"]["labels"]["lifecycle.gpuops.io/qualification"] == "failed"


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"reason": "x"}]', "null", '"x"'])
def test_an_annotation_that_we_did_not_write_is_not_guessed_at(text):
    strange = node()
    strange["metadata"]["annotations"][hold.keys.HOLD_ANNOTATION] = text
    with pytest.raises(hold.Unreadable):
        hold.entries(strange)


@pytest.mark.parametrize(
    ("tolerations", "tolerated"),
    [
        ([], False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}], False),
        ([{"operator": "Exists"}], True),
        ([{"key": "lifecycle.gpuops.io/hold", "operator": "Exists"}], True),
        ([{"key": "lifecycle.gpuops.io/hold", "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"key": "lifecycle.gpuops.io/hold", "value": "driver"}], False),
        ([{"key": "", "operator": "Equal", "value": ""}], False),
    ],
)
def test_which_operands_the_hold_taint_would_keep_off(tolerations, tolerated):
    spec = {"nodeSelector": {"nvidia.com/gpu.deploy.driver": "true"}, "tolerations": tolerations}
    driver = {"metadata": {"namespace": "gpu-operator", "name": "driver"}, "spec": {"template": {"spec": spec}}}
    other = {"metadata": {"namespace": "x", "name": "agent"}, "spec": {"template": {"spec": {}}}}
    assert hold.intolerant_operands([driver, other]) == ([] if tolerated else ["gpu-operator/driver"])
