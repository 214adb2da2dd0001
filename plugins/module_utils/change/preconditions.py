# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a driver rollout must not begin now: sentences about the ClusterPolicy and the fleet. Pure.

Most of these make the operator upgrade nothing and say nothing (measured on the operator of September 2025).
"""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import driver_steps
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import budget, hold, keys, operands

GITOPS = ("argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/")
# The DaemonSet controller lets every DaemonSet tolerate these (k8s.io/kubernetes pkg/controller/daemon/util).
ALWAYS_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def of_policy(policy):
    """Why the operator would not upgrade anything under this ClusterPolicy."""
    spec = policy["spec"]
    driver, name = spec.get("driver") or {}, policy["metadata"]["name"]
    rules, found = driver.get("upgradePolicy") or {}, []
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
    # Without the block the operator of September 2025 panics in each reconcile; that of August 2026 does not.
    if "drain" not in rules:
        found.append(
            f"ClusterPolicy {name} has no driver.upgradePolicy.drain; without it the operator upgrades nothing"
        )
    if (spec.get("sandboxWorkloads") or {}).get("enabled"):
        found.append(f"ClusterPolicy {name} has sandboxWorkloads on; the operator does not upgrade drivers then")
    return found


def gitops_mark(policy):
    """Label or annotation by which Argo CD or Flux says that it owns the ClusterPolicy, None without one."""
    marks = {**(policy["metadata"].get("labels") or {}), **(policy["metadata"].get("annotations") or {})}
    return next((key for key in sorted(marks) if key.startswith(GITOPS)), None)


def helm_release(policy):
    """Name of the Helm release that made the ClusterPolicy, "" when Helm did not."""
    metadata = policy["metadata"]
    if (metadata.get("labels") or {}).get("app.kubernetes.io/managed-by") != "Helm":
        return ""
    return (metadata.get("annotations") or {}).get("meta.helm.sh/release-name") or "gpu-operator"


def stops(daemonsets, pods, nodes):
    """What makes the operator upgrade no node at all. daemonsets, pods: the driver's. nodes: those the pods are on."""
    if not daemonsets:
        return ["there is no driver DaemonSet"]
    found = [text for daemonset in daemonsets for text in _uncounted(daemonset, pods, nodes)]
    away = sorted(node["metadata"]["name"] for node in nodes if not budget.is_ready(node))
    return [*found, *(f"{name} is not Ready; the operator upgrades no node while one is away" for name in away)]


def disturbs(name, nodes):
    """Other nodes that a new version would reach in the middle of something. name: the node to be upgraded."""
    found = []
    for node in sorted(nodes, key=lambda n: n["metadata"]["name"]):
        other, state = node["metadata"]["name"], operands.labels_of(node).get(keys.UPGRADE_STATE, "")
        lost = state == driver_steps.FAILED and not _kept(node)
        if other != name and (state in driver_steps.IN_FLIGHT or lost):
            found.append(f"{other} is in the operator's state {state}; finish or mend it first")
    return found


def _kept(node):
    """Held by one of us and armed: however it goes on, the operator does not open it."""
    return bool(hold.entries(node)) and keys.INITIAL_UNSCHEDULABLE in (node["metadata"].get("annotations") or {})


def _uncounted(daemonset, pods, nodes):
    metadata, status = daemonset["metadata"], daemonset.get("status") or {}
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        return [f"DaemonSet {metadata['name']} has been changed and is not counted anew yet"]
    mine = [pod for pod in pods if operands.controller_of(pod).get("uid") == metadata["uid"]]
    desired = status.get("desiredNumberScheduled")
    if desired == len(mine):
        return []
    on = {pod["spec"].get("nodeName") for pod in mine}
    tolerations = daemonset["spec"]["template"]["spec"].get("tolerations")
    why = [
        f"{node['metadata']['name']} has taint {text}"
        for node in nodes
        if node["metadata"]["name"] in on
        for text in untolerated(node, tolerations)
    ]
    return [
        f"DaemonSet {metadata['name']} wants {desired} driver pods and has {len(mine)}; the operator upgrades no node while "
        f"these differ ({'; '.join(why) or 'a pod is missing, or a node has just come or gone'})"
    ]


def untolerated(node, tolerations):
    """Taints of a node that keep pods with these tolerations away, as text."""
    return [
        f"{taint['key']}:{taint['effect']}"
        for taint in (node.get("spec") or {}).get("taints") or []
        if taint["effect"] != "PreferNoSchedule"
        and (taint["key"], taint["effect"]) not in ALWAYS_TOLERATED
        and not hold.tolerates(tolerations, taint)
    ]
