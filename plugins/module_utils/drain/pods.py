# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a drain does with a pod, before any budget is looked at. Pure: pods as plain dicts.

Order of the rules: kubectl's (pkg/drain/filters.go), with the DaemonSet question before the storage question
(ansible-collections/kubernetes.core#622), and every rule asked, so that one answer names all that stands in the way.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.hold import tolerates

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
DEFAULT_GRACE_S = 30


class Treatment(NamedTuple):
    """action: skip (stays where it is), wait (is leaving already), evict, refuse (needs an option to be set).

    reason: words for a sentence. options: for refuse, the options that allow it.
    """

    action: str
    reason: str = ""
    options: tuple = ()


def treatment(pod, daemonsets, delete_emptydir_data=False, evict_unmanaged=False):
    """Treatment of a pod.

    daemonsets: set of (namespace, name) that exist, or None when they may not be read: then a DaemonSet's pod counts as
    having its DaemonSet.
    """
    metadata = pod["metadata"]
    if MIRROR_ANNOTATION in (metadata.get("annotations") or {}):
        return Treatment("skip", "is a static pod of the kubelet")
    if is_daemonset_pod(pod) and _has_daemonset(pod, daemonsets):
        return Treatment("skip", "belongs to a DaemonSet")
    if is_terminating(pod):  # also when its containers have ended: what holds it (a finalizer) may still need the node
        return Treatment("wait", "is terminating already")
    if is_finished(pod):
        return Treatment("skip", "is finished")
    if metadata["namespace"] == keys.NAMESPACE:
        return Treatment("evict", "is a diagnostic of ours")
    reasons, options = [], []
    if not evict_unmanaged and (controller(pod) is None or is_daemonset_pod(pod)):
        missing = f"its DaemonSet {controller(pod)['name']} does not exist" if controller(pod) else "nothing manages it"
        reasons.append(f"{missing}, so nothing brings it back")
        options.append("evict_unmanaged")
    volumes = emptydir_volumes(pod)
    if volumes and not delete_emptydir_data:
        reasons.append(f"its emptyDir {', '.join(volumes)} would be lost")
        options.append("delete_emptydir_data")
    if options:
        return Treatment("refuse", " and ".join(reasons), tuple(options))
    return Treatment("evict")


def label_of(pod):
    """namespace/name, as people and kubectl write it."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def controller(pod):
    """The ownerReference that controls the pod, or None. Any kind counts: custom controllers manage pods too (k/k#57049)."""
    return next((ref for ref in pod["metadata"].get("ownerReferences") or [] if ref.get("controller")), None)


def owner(pod):
    """{kind, name} of the controller; empty strings when nothing controls the pod."""
    ref = controller(pod) or {}
    return {"kind": ref.get("kind", ""), "name": ref.get("name", "")}


def is_daemonset_pod(pod):
    ref = controller(pod)
    return bool(ref) and ref.get("kind") == "DaemonSet" and ref.get("apiVersion") == "apps/v1"


def _has_daemonset(pod, daemonsets):
    return daemonsets is None or (pod["metadata"]["namespace"], controller(pod)["name"]) in daemonsets


def is_finished(pod):
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_terminating(pod):
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_ready(pod):
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def emptydir_volumes(pod):
    """Names of the emptyDir volumes on disk.

    Those in memory (`medium: Memory`, the /dev/shm of nearly every GPU job) end with the process like its other memory;
    cluster-autoscaler's drainability rules leave them out too.
    """
    volumes = (pod.get("spec") or {}).get("volumes") or []
    return [v["name"] for v in volumes if v.get("emptyDir") is not None and v["emptyDir"].get("medium") != "Memory"]


def grace_s(pod, grace_period_s=None):
    """Seconds the pod may take to end: the override, else its own."""
    if grace_period_s is not None:
        return grace_period_s
    own = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_S if own is None else own


def gpus(pod):
    """GPUs and MIG slices the pod's containers have reserved."""
    total = 0
    for container in (pod.get("spec") or {}).get("containers") or []:
        resources = container.get("resources") or {}
        reserved = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        total += sum(int(n) for r, n in reserved.items() if r == keys.GPU_RESOURCE or r.startswith("nvidia.com/mig-"))
    return total


def tolerates_cordon(pod):
    """The scheduler may put this pod on a cordoned node (cilium/tetragon#3484: a toleration without key covers all)."""
    taint = {"key": keys.UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}
    return tolerates((pod.get("spec") or {}).get("tolerations"), taint)


def overdue_s(pod, now):
    """Seconds since the end of a terminating pod's grace (negative: grace left). now: aware datetime of the API server."""
    return (now - parse_time(pod["metadata"]["deletionTimestamp"])).total_seconds()


def terminating_s(pod, now):
    """Seconds since deletion was asked for."""
    return overdue_s(pod, now) + (pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def parse_time(text):
    """Aware datetime of an RFC 3339 time as the API writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
