# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do next on the way of one node to a driver version, decided from what the cluster shows. Pure.

The GPU operator releases a node by itself, also a failed one, unless it was cordoned when the operator wrote
`upgrade-required`. So a node is *armed* first: cordoned, its state label dropped, and the operator writes the label and
its initial-unschedulable annotation anew (measured on the operators of September 2025 and August 2026).
"""

from __future__ import annotations

from typing import NamedTuple, Optional

REQUIRED, DONE, FAILED = "upgrade-required", "upgrade-done", "upgrade-failed"
IDLE = ("", DONE)
WAIT_FOR_JOBS, POD_DELETION, DRAIN = "wait-for-jobs-required", "pod-deletion-required", "drain-required"
POD_RESTART, VALIDATION = "pod-restart-required", "validation-required"
IN_FLIGHT = (
    "cordon-required",
    WAIT_FOR_JOBS,
    POD_DELETION,
    DRAIN,
    POD_RESTART,
    VALIDATION,
    "uncordon-required",
)
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
# The operator compares with "true" only; any other change of the label wakes it (k8s-operator-libs pkg/upgrade).
NUDGE = "nudge-"


class Seen(NamedTuple):
    """One look at the node and the policy.

    held: the run's owner holds the node. foreign_taints: what keeps it out beside the hold, as text. pod: name of the
    driver pod, "" without one; pod_in_sync None: no pod, or not to be told. validated: a validator pod is Ready, and not
    since before the driver started. gpu_pods: workloads that keep the driver in use.
    Of this run: prepared (the policy had the wanted version before), began (the node was in flight), retried.
    """

    wanted: str
    policy_version: str
    state: str = ""
    label_version: str = ""
    cordoned: bool = True
    held: bool = True
    armed: bool = False
    skip: str = ""
    skip_ours: bool = False
    pod: str = "driver"
    pod_in_sync: Optional[bool] = True
    pod_ready: bool = True
    pod_restarts: int = 0
    pod_waiting: str = ""
    validator: str = "validator"
    validated: bool = True
    gpu_pods: tuple = ()
    node_ready: bool = True
    foreign_taints: tuple = ()
    prepared: bool = False
    began: bool = False
    retried: bool = False


class Step(NamedTuple):
    """verb: done, prepare, notice, brake, arm, armed, unskip, retry, follow, refuse. why: of a refusal."""

    verb: str
    why: str = ""


def is_upgraded(seen):
    """The whole evidence; the state label alone also says done before the new version was noticed."""
    return (
        seen.policy_version == seen.wanted
        and seen.state in IDLE
        and not seen.armed
        and seen.pod_in_sync is True
        and seen.pod_ready
        and seen.validated
        and seen.label_version == seen.wanted
    )


def next_step(seen, name="the node"):
    """Step for what is seen now; asked again after each change, so that it can begin anywhere."""
    if is_upgraded(seen) and (seen.cordoned or not (seen.held or seen.began)):
        return Step("unskip") if seen.skip_ours or seen.skip.startswith(NUDGE) else Step("done")
    why = _hindrance(seen, name)
    if why:
        return Step("refuse", why)
    if seen.policy_version != seen.wanted:
        return Step("prepare")
    if seen.state in IN_FLIGHT:
        return Step("follow")
    if seen.state == FAILED:
        return _failed(seen, name)
    if seen.state == REQUIRED:
        return _required(seen)
    return _idle(seen)


def _hindrance(seen, name):
    """Why nothing is done to the node now, "" when nothing speaks against it."""
    if not seen.cordoned:
        return (
            f"{name} is not cordoned{' any more: somebody opened it, or the operator did' if seen.held else ''}. Hold and "
            "drain it before its driver is changed (ansible-playbook gpuops.lifecycle.upgrade does, also from here on)"
        )
    if seen.state not in (*IDLE, REQUIRED, FAILED, *IN_FLIGHT):
        return f"the operator reports the unknown state {seen.state} for {name}"
    if seen.state in IN_FLIGHT:
        return ""
    if seen.prepared and seen.policy_version != seen.wanted:
        return (
            f"the ClusterPolicy wants driver {seen.policy_version or 'unknown'} again, not {seen.wanted}: somebody else set "
            "it back (GitOps, a helm upgrade, another run). Settle with them which version is wanted"
        )
    if seen.skip == "true" and not seen.skip_ours:
        return (
            f"{name} carries the label {SKIP}=true, which this collection did not set. Ask whoever did, or remove it "
            f"(kubectl label node {name} {SKIP}-)"
        )
    if seen.gpu_pods and seen.state != FAILED:
        return f"GPU pods are still on {name}: {listed(seen.gpu_pods)}. Drain it first with gpuops.lifecycle.drain"
    return ""


def _required(seen):
    if not seen.armed:
        return Step("arm" if seen.skip == "true" else "brake")
    return Step("unskip" if seen.skip_ours else "follow")


def _idle(seen):
    """Between states: not noticed yet, armed in this moment, or over but for the operands."""
    if seen.pod_in_sync is True and (seen.label_version == seen.wanted or (seen.began and not seen.armed)):
        return Step("unskip" if seen.skip_ours else "follow")
    return Step("armed" if seen.armed else "notice")


def _failed(seen, name):
    """Failed moves on by itself when the newest driver pod is Ready; an older pod takes the operator's documented retry."""
    if seen.pod_in_sync and seen.pod_ready:
        return Step("follow")
    if seen.gpu_pods:
        return Step(
            "refuse",
            f"the driver upgrade of {name} failed because GPU pods could not be evicted: {listed(seen.gpu_pods)}. Drain it "
            "with gpuops.lifecycle.drain, which names the budget or the finalizer that keeps them",
        )
    if seen.pod_in_sync is False and not seen.retried:
        return Step("retry" if seen.armed or seen.skip == "true" else "brake")
    why = f": {seen.pod_waiting}" if seen.pod_waiting else ""
    return Step(
        "refuse",
        f"the driver upgrade of {name} failed; driver pod {seen.pod or '(there is none)'} is not Ready after "
        f"{seen.pod_restarts} restarts{why}. Once its cause is mended and the pod is Ready, run the same command again; "
        "or run it with another version, which replaces the pod",
    )


def listed(names, at_most=5):
    more = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {more} more" if more > 0 else "")


def nudge_is_due(seen):
    """The operator wakes on node labels, not on pods: everything is ready and it only has not looked yet."""
    if seen.pod_in_sync is not True or not seen.pod_ready or not seen.validated:
        return False
    return seen.state in (POD_RESTART, VALIDATION)


def plan(seen):
    """Sentences on the way from here, for a check: the node counted as held and drained."""
    steps = {
        "prepare": (
            f"skip label {SKIP} on every node that does not run {seen.wanted} yet",
            f"ClusterPolicy: driver.version {seen.policy_version or 'unset'} -> {seen.wanted}",
        ),
        "notice": ("wait until the operator asks for the upgrade of the node",),
        "brake": ("skip label on the node, so that it does not start unarmed",),
        "retry": (f"state label back to {REQUIRED}, as the operator documents for a failed node",),
        "arm": ("drop the state label, so that the operator notes that the node was cordoned before",),
        "unskip": ("take the skip label off",),
        "follow": ("follow the operator until driver pod, validator and version label agree",),
    }
    order = ("prepare", "notice", "brake", "retry", "arm", "unskip", "follow")
    verb = {"armed": "unskip", "refuse": "follow"}.get(next_step(seen).verb, next_step(seen).verb)
    if verb == "done":
        return []
    if verb == "follow" or is_upgraded(seen):
        return list(steps[verb])
    optional = {"brake", "retry"} - {verb}
    return [text for part in order[order.index(verb) :] if part not in optional for text in steps[part]]
