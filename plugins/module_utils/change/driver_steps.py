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
IN_FLIGHT = (
    "cordon-required",
    "wait-for-jobs-required",
    "pod-deletion-required",
    "drain-required",
    "pod-restart-required",
    "validation-required",
    "uncordon-required",
)


class Seen(NamedTuple):
    """One look at the node and the policy. pod_*: of the driver pod; pod_in_sync None: no pod, or not to be told."""

    wanted: str
    policy_version: str
    state: str = ""
    label_version: str = ""
    cordoned: bool = True
    armed: bool = False
    skip: str = ""
    skip_ours: bool = False
    pod_in_sync: Optional[bool] = True
    pod_ready: bool = True
    pod_restarts: int = 0
    pod_waiting: str = ""
    validator_ready: bool = True
    gpu_pods: tuple = ()


class Step(NamedTuple):
    """verb: done, prepare, notice, arm, armed, unskip, follow, refuse. why: for refuse and for progress."""

    verb: str
    why: str = ""


def is_upgraded(seen):
    """The whole evidence; the state label alone also says done before the new version was noticed."""
    return (
        seen.state in ("", DONE)
        and not seen.armed
        and seen.pod_in_sync is True
        and seen.pod_ready
        and seen.validator_ready
        and seen.label_version == seen.wanted
    )


def next_step(seen, name="the node"):
    """Step for what is seen now; asked again after each change, so that it can begin anywhere."""
    if seen.policy_version != seen.wanted:
        return Step("prepare")
    if is_upgraded(seen):
        return Step("unskip") if seen.skip_ours else Step("done")
    if not seen.cordoned:
        return Step(
            "refuse",
            f"{name} is not cordoned any more: somebody opened it, or the operator did. Hold and drain it again before its "
            "driver is changed (run the same command again)",
        )
    if seen.state in IN_FLIGHT:
        return Step("follow")
    if seen.state == FAILED:
        return _failed(seen, name)
    if seen.state == REQUIRED:
        return _required(seen, name)
    if seen.state in ("", DONE):
        return _idle(seen)
    return Step("refuse", f"the operator reports the unknown state {seen.state} for {name}")


def _required(seen, name):
    if seen.gpu_pods:
        listed = ", ".join(seen.gpu_pods[:5])
        return Step("refuse", f"GPU pods are still on {name}: {listed}. Drain it first with gpuops.lifecycle.drain")
    if not seen.armed:
        return Step("arm")
    if seen.skip_ours:
        return Step("unskip")
    if seen.skip == "true":
        return Step(
            "refuse",
            f"{name} carries the label nvidia.com/gpu-driver-upgrade.skip=true, which this collection did not set. Ask "
            "whoever did, or remove it",
        )
    return Step("follow")


def _idle(seen):
    """Between states: not noticed yet, armed in this moment, or over but for the operands."""
    if seen.pod_in_sync is True and seen.label_version == seen.wanted:
        return Step("unskip") if seen.skip_ours else Step("follow")
    if seen.armed:
        return Step("armed")
    return Step("notice")


def _failed(seen, name):
    if seen.pod_in_sync and seen.pod_ready:
        return Step("follow")
    why = f": {seen.pod_waiting}" if seen.pod_waiting else ""
    return Step(
        "refuse",
        f"the driver upgrade of {name} failed; its driver pod is not Ready after {seen.pod_restarts} restarts{why}. See "
        "the log of that pod. When its cause is mended and the pod Ready, run the same command again; to make the operator "
        "try anew: "
        f"kubectl label node {name} nvidia.com/gpu-driver-upgrade-state={REQUIRED} --overwrite",
    )


def obstacles(policy, driver_daemonsets, pods_by_daemonset, others):
    """Why a rollout must not begin now: sentences. others: {node: (state, ready)} of the other nodes with a driver pod."""
    spec = policy["spec"]
    driver, rules = spec.get("driver") or {}, (spec.get("driver") or {}).get("upgradePolicy") or {}
    name, found = policy["metadata"]["name"], []
    if driver.get("enabled") is False:
        found.append(f"ClusterPolicy {name} does not manage the driver (driver.enabled is false)")
    if driver.get("useNvidiaDriverCRD"):
        found.append(
            f"ClusterPolicy {name} leaves the driver to NVIDIADriver objects, which this version does not drive"
        )
    if not rules.get("autoUpgrade"):
        found.append(
            f"ClusterPolicy {name} has driver.upgradePolicy.autoUpgrade off; the operator would not upgrade anything"
        )
    if "drain" not in rules:
        found.append(
            f"ClusterPolicy {name} has no driver.upgradePolicy.drain; without it the operator upgrades nothing"
        )
    if (spec.get("sandboxWorkloads") or {}).get("enabled"):
        found.append(f"ClusterPolicy {name} has sandboxWorkloads on; the operator does not upgrade drivers then")
    for daemonset in driver_daemonsets:
        uid, status = daemonset["metadata"]["uid"], daemonset.get("status") or {}
        desired, there = status.get("desiredNumberScheduled"), pods_by_daemonset.get(uid, 0)
        if desired != there:
            found.append(
                f"DaemonSet {daemonset['metadata']['name']} wants {desired} driver pods and has {there}; the operator upgrades "
                "no node while these differ (a node that is not Ready, or a taint the driver does not tolerate)"
            )
    for node, (state, ready) in sorted(others.items()):
        if state in IN_FLIGHT or state == FAILED:
            found.append(f"{node} is in the operator's state {state}; finish or mend it first")
        elif not ready:
            found.append(f"{node} is not Ready; the operator upgrades no node while one is away")
    return found


def nudge_is_due(seen):
    """The operator wakes on node labels, not on pods: everything is ready and it only has not looked yet."""
    if seen.pod_in_sync is not True or not seen.pod_ready:
        return False
    return seen.state == "pod-restart-required" or (seen.state == "validation-required" and seen.validator_ready)
