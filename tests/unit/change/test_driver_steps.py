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


NO_SKIP = dict(skip="", skip_ours=False)
FRESH = dict(policy_version=OLD, state=DONE, pod_in_sync=True, **NO_SKIP)
OVER = dict(state=DONE, label_version=NEW, pod_in_sync=True, **NO_SKIP)
FLYING = dict(armed=True, **NO_SKIP)
CRASHING = dict(state=FAILED, pod_in_sync=True, pod_ready=False, pod_restarts=11, pod_waiting="CrashLoopBackOff")

CASES = [
    # before the rollout
    ("the policy still wants the old driver", seen(**FRESH), "prepare"),
    ("killed between the skip labels and the policy", seen(policy_version=OLD, state=DONE), "prepare"),
    (
        "the new driver is there already, but the policy asks for another",
        seen(**{**OVER, "policy_version": OLD}),
        "prepare",
    ),
    ("open: nothing is changed before it is held", seen(**{**FRESH, "cordoned": False}), "refuse"),
    ("not drained: nothing is changed before it is", seen(**FRESH, gpu_pods=("x/y",)), "refuse"),
    ("skipped by somebody else: nothing is changed", seen(**{**FRESH, "skip": "true"}), "refuse"),
    ("the policy was set back after this run had set it", seen(policy_version=OLD, prepared=True), "refuse"),
    (
        "another version while this node is in flight: it gets that one",
        seen(policy_version=OLD, state="drain-required"),
        "prepare",
    ),
    # its turn
    ("the operator has not looked yet: done means nothing", seen(state=DONE), "notice"),
    ("no state at all", seen(state=""), "notice"),
    ("its turn: arm", seen(), "arm"),
    ("not skipped and not armed: it may start at any moment", seen(**NO_SKIP), "brake"),
    ("our mark without the label", seen(skip=""), "brake"),
    ("a nudge left over is no skip", seen(skip="nudge-2", skip_ours=False), "brake"),
    ("killed after the label was dropped", seen(state="", armed=True), "armed"),
    ("done with the annotation is a start, not an end", seen(state=DONE, armed=True), "armed"),
    ("armed: take the skip label off", seen(armed=True), "unskip"),
    ("armed, our mark without the label", seen(armed=True, skip=""), "unskip"),
    ("killed after the skip label went", seen(**FLYING), "follow"),
    ("a skip label of somebody else", seen(armed=True, skip_ours=False), "refuse"),
    ("a nudge is no skip", seen(armed=True, skip="nudge-3", skip_ours=False), "follow"),
    ("GPU pods are back", seen(gpu_pods=("x/y",)), "refuse"),
    ("opened by somebody", seen(cordoned=False), "refuse"),
    # in flight
    *((f"in flight: {state}", seen(state=state, **FLYING), "follow") for state in driver_steps.IN_FLIGHT),
    ("in flight, unarmed: nothing stops it now", seen(state="pod-restart-required", **NO_SKIP), "follow"),
    ("in flight, a skip label does not stop it", seen(state="pod-restart-required", skip_ours=False), "follow"),
    ("in flight, GPU pods: the operator evicts them", seen(state="pod-deletion-required", gpu_pods=("x/y",)), "follow"),
    ("opened in flight", seen(state="pod-restart-required", cordoned=False, **FLYING), "refuse"),
    # failed
    ("failed, driver pod in a crash loop", seen(**CRASHING, **FLYING), "refuse"),
    ("failed, driver pod Ready: the operator moves on", seen(state=FAILED, pod_in_sync=True, **FLYING), "follow"),
    ("failed, not drained", seen(state=FAILED, gpu_pods=("x/y",), **FLYING), "refuse"),
    ("failed with the old pod, drained now", seen(state=FAILED, **FLYING), "retry"),
    ("failed with the old pod, unarmed", seen(state=FAILED, **NO_SKIP), "brake"),
    ("failed with the old pod, unarmed, skipped", seen(state=FAILED), "retry"),
    ("failed again after a retry", seen(state=FAILED, retried=True, **FLYING), "refuse"),
    ("failed, no driver pod", seen(state=FAILED, pod="", pod_in_sync=None, pod_ready=False, **FLYING), "refuse"),
    ("a state nobody knows", seen(state="brand-new-state"), "refuse"),
    # over
    ("all of it", seen(**OVER), "done"),
    ("all of it, without a state label", seen(**{**OVER, "state": ""}), "done"),
    ("all of it, given back long ago", seen(**OVER, cordoned=False, held=False), "done"),
    ("all of it, held and yet open: somebody opened it", seen(**OVER, cordoned=False), "refuse"),
    ("all of it, and opened while this run watched", seen(**OVER, cordoned=False, held=False, began=True), "refuse"),
    ("all of it, but our skip label is still on", seen(**{**OVER, "skip": "true", "skip_ours": True}), "unskip"),
    ("all of it, but a nudge is still on", seen(**{**OVER, "skip": "nudge-1"}), "unskip"),
    ("all of it, skipped by somebody else", seen(**{**OVER, "skip": "true"}), "done"),
    ("done, annotation not yet removed", seen(**{**OVER, "armed": True}), "follow"),
    ("done, validator not Ready", seen(**{**OVER, "validated": False}), "follow"),
    ("done, driver pod not Ready", seen(**{**OVER, "pod_ready": False}), "follow"),
    ("done, version label old", seen(**{**OVER, "label_version": OLD}), "notice"),
    (
        "done, version label not back yet, seen in flight",
        seen(**{**OVER, "label_version": "", "began": True}),
        "follow",
    ),
    ("done, revision not to be told", seen(**{**OVER, "pod_in_sync": None}), "notice"),
]


@pytest.mark.parametrize(("situation", "view", "verb"), CASES, ids=[case[0] for case in CASES])
def test_next_step(situation, view, verb):
    step = driver_steps.next_step(view, "gpu-node-a")
    assert step.verb == verb, step
    assert bool(step.why) is (verb == "refuse")


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (seen(cordoned=False), "not cordoned any more"),
        (seen(cordoned=False, held=False), "gpu-node-a is not cordoned. Hold and drain it"),
        (seen(gpu_pods=tuple(f"x/{i}" for i in range(7))), "x/4 and 2 more"),
        (seen(skip_ours=False), "kubectl label node gpu-node-a nvidia.com/gpu-driver-upgrade.skip-"),
        (seen(policy_version=OLD, prepared=True), f"wants driver {OLD} again"),
        (seen(**CRASHING, **FLYING), "driver pod driver is not Ready after 11 restarts: CrashLoopBackOff"),
        (seen(state=FAILED, gpu_pods=("x/y",), **FLYING), "could not be evicted: x/y"),
        (seen(state="brand-new-state"), "brand-new-state"),
    ],
)
def test_a_refusal_names_the_thing_and_the_next_step(view, says):
    assert says in driver_steps.next_step(view, "gpu-node-a").why


@pytest.mark.parametrize(
    ("view", "due"),
    [
        (seen(state="pod-restart-required", pod_in_sync=True, **FLYING), True),
        (seen(state="validation-required", pod_in_sync=True, **FLYING), True),
        (seen(state="validation-required", pod_in_sync=True, validated=False, **FLYING), False),
        (seen(state="pod-restart-required", pod_in_sync=True, validated=False, **FLYING), False),
        (seen(state="pod-restart-required", pod_in_sync=True, pod_ready=False, **FLYING), False),
        (seen(state="pod-restart-required", **FLYING), False),
        (seen(state="drain-required", pod_in_sync=True, **FLYING), False),
    ],
)
def test_a_nudge_is_due_only_when_the_operator_merely_has_not_looked(view, due):
    assert driver_steps.nudge_is_due(view) is due


@pytest.mark.parametrize(
    ("view", "parts"),
    [
        (
            seen(**FRESH),
            ["skip label", f"driver.version {OLD} -> {NEW}", "wait until", "drop the", "take the", "follow"],
        ),
        (seen(state=DONE), ["wait until", "drop the", "take the", "follow"]),
        (seen(), ["drop the", "take the", "follow"]),
        (seen(**NO_SKIP), ["skip label on the node", "drop the", "take the", "follow"]),
        (seen(armed=True), ["take the", "follow"]),
        (seen(**FLYING), ["follow"]),
        (seen(**{**OVER, "skip_ours": True}), ["take the"]),
        (seen(**OVER), []),
    ],
)
def test_a_plan_names_what_is_left_to_do(view, parts):
    plan = driver_steps.plan(view)
    assert len(plan) == len(parts), plan
    assert all(text.startswith(part) or part in text for text, part in zip(plan, parts))
