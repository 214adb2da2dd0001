# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The next step of a driver upgrade from whatever is seen: it can begin, and be gone on with, anywhere."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import driver_steps
from ansible_collections.gpuops.lifecycle.plugins.module_utils.change.driver_steps import Seen

NEW, OLD = "580.95.05", "575.57.08"
REQUIRED, DONE, FAILED = driver_steps.REQUIRED, driver_steps.DONE, driver_steps.FAILED


def seen(**changed):
    """A held node that waits for its turn: the policy wants the new driver, our skip label is on."""
    before = dict(
        wanted=NEW,
        policy_version=NEW,
        state=REQUIRED,
        label_version=OLD,
        skip="true",
        skip_ours=True,
        pod_in_sync=False,
    )
    return Seen(**{**before, **changed})


OVER = dict(state=DONE, label_version=NEW, pod_in_sync=True, skip="", skip_ours=False)
FLYING = dict(armed=True, skip="", skip_ours=False)

CASES = [
    (
        "the policy still wants the old driver",
        seen(policy_version=OLD, state=DONE, skip="", skip_ours=False),
        "prepare",
    ),
    ("killed between the skip labels and the policy", seen(policy_version=OLD, state=DONE), "prepare"),
    ("the operator has not looked yet: done means nothing", seen(state=DONE), "notice"),
    ("no state at all", seen(state=""), "notice"),
    ("its turn: arm", seen(), "arm"),
    ("killed after the label was dropped", seen(state="", armed=True), "armed"),
    ("done with the annotation is a start, not an end", seen(state=DONE, armed=True), "armed"),
    ("armed: take the skip label off", seen(armed=True), "unskip"),
    ("killed after the skip label went", seen(**FLYING), "follow"),
    ("a skip label of somebody else", seen(armed=True, skip_ours=False), "refuse"),
    ("a nudge is no skip", seen(armed=True, skip="nudge-3", skip_ours=False), "follow"),
    ("GPU pods are back", seen(gpu_pods=("x/y",)), "refuse"),
    ("opened by somebody", seen(cordoned=False), "refuse"),
    ("opened in flight", seen(state="pod-restart-required", cordoned=False, **FLYING), "refuse"),
    *((f"in flight: {state}", seen(state=state, **FLYING), "follow") for state in driver_steps.IN_FLIGHT),
    ("failed, driver pod in a crash loop", seen(state=FAILED, pod_in_sync=True, pod_ready=False, **FLYING), "refuse"),
    ("failed, driver pod Ready: the operator moves on", seen(state=FAILED, pod_in_sync=True, **FLYING), "follow"),
    ("a state nobody knows", seen(state="brand-new-state"), "refuse"),
    ("all of it", seen(**OVER), "done"),
    ("all of it, and open already", seen(**{**OVER, "cordoned": False}), "done"),
    ("all of it, but our skip label is still on", seen(**{**OVER, "skip": "true", "skip_ours": True}), "unskip"),
    ("done, annotation not yet removed", seen(**{**OVER, "armed": True}), "follow"),
    ("done, validator not Ready", seen(**{**OVER, "validator_ready": False}), "follow"),
    ("done, driver pod not Ready", seen(**{**OVER, "pod_ready": False}), "follow"),
    ("done, version label old", seen(**{**OVER, "label_version": OLD}), "notice"),
    ("done, revision not to be told", seen(**{**OVER, "pod_in_sync": None}), "notice"),
]


@pytest.mark.parametrize(("situation", "view", "verb"), CASES, ids=[case[0] for case in CASES])
def test_next_step(situation, view, verb):
    step = driver_steps.next_step(view, "gpu-node-a")
    assert step.verb == verb, step
    assert bool(step.why) is (verb == "refuse")


def policy(**upgrade):
    rules = {"autoUpgrade": True, "drain": {"enable": False}, **upgrade}
    return {"metadata": {"name": "cluster-policy"}, "spec": {"driver": {"enabled": True, "upgradePolicy": rules}}}


def daemonset(desired=4):
    return {"metadata": {"name": "driver", "uid": "u"}, "status": {"desiredNumberScheduled": desired}}


def without(obj, *path):
    for key in path[:-1]:
        obj = obj[key]
    del obj[path[-1]]


@pytest.mark.parametrize(
    ("edit", "pods", "others", "says"),
    [
        (lambda p: None, 4, {}, None),
        (lambda p: None, 4, {"b": ("upgrade-done", True)}, None),
        (lambda p: None, 4, {"b": ("upgrade-required", True)}, None),
        (lambda p: without(p, "spec", "driver", "upgradePolicy", "drain"), 4, {}, "no driver.upgradePolicy.drain"),
        (lambda p: p["spec"]["driver"]["upgradePolicy"].update(autoUpgrade=False), 4, {}, "autoUpgrade off"),
        (lambda p: without(p, "spec", "driver", "upgradePolicy"), 4, {}, "autoUpgrade off"),
        (lambda p: p["spec"]["driver"].update(enabled=False), 4, {}, "does not manage"),
        (lambda p: p["spec"]["driver"].update(useNvidiaDriverCRD=True), 4, {}, "NVIDIADriver"),
        (lambda p: p["spec"].update(sandboxWorkloads={"enabled": True}), 4, {}, "sandboxWorkloads"),
        (lambda p: None, 3, {}, "wants 4 driver pods and has 3"),
        (lambda p: None, 5, {}, "wants 4 driver pods and has 5"),
        (lambda p: None, 4, {"b": ("upgrade-failed", True)}, "b is in the operator's state upgrade-failed"),
        (lambda p: None, 4, {"b": ("drain-required", True)}, "b is in the operator's state drain-required"),
        (lambda p: None, 4, {"b": ("upgrade-done", False)}, "b is not Ready"),
    ],
)
def test_obstacles(edit, pods, others, says):
    wanted = policy()
    edit(wanted)
    found = driver_steps.obstacles(wanted, [daemonset()], {"u": pods}, others)
    assert (found == []) if says is None else any(says in text for text in found)


@pytest.mark.parametrize(
    ("view", "due"),
    [
        (seen(state="pod-restart-required", pod_in_sync=True, **FLYING), True),
        (seen(state="validation-required", pod_in_sync=True, **FLYING), True),
        (seen(state="validation-required", pod_in_sync=True, validator_ready=False, **FLYING), False),
        (seen(state="pod-restart-required", pod_in_sync=True, pod_ready=False, **FLYING), False),
        (seen(state="pod-restart-required", **FLYING), False),
        (seen(state="drain-required", pod_in_sync=True, **FLYING), False),
    ],
)
def test_a_nudge_is_due_only_when_the_operator_merely_has_not_looked(view, due):
    assert driver_steps.nudge_is_due(view) is due
