# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPU operator's pods on a node, and what they show. Pure; objects as the API gives them.

A driver pod is the newest when its revision hash is that of the newest ControllerRevision of its DaemonSet: the operator
counts any change of the template, not only the version (k8s-operator-libs pkg/upgrade).
"""

from __future__ import annotations

import datetime

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys

COMPONENT = "app.kubernetes.io/component"
DRIVER, VALIDATOR = "nvidia-driver", "nvidia-operator-validator"
REVISION_HASH = "controller-revision-hash"


def labels_of(obj):
    return obj["metadata"].get("labels") or {}


def controller_of(obj):
    return next((ref for ref in obj["metadata"].get("ownerReferences") or [] if ref.get("controller")), {})


def is_driver(pod):
    return labels_of(pod).get(COMPONENT) == DRIVER and controller_of(pod).get("kind") == "DaemonSet"


def is_validator(pod):
    return labels_of(pod).get("app") == VALIDATOR


def driver_of(pods):
    """The driver pod of a node, given the pods on it; of several the one that stays. None without one."""
    return _current(p for p in pods if is_driver(p))


def validator_of(pods):
    """The validator pod of a node; of several the one that stays. None without one."""
    return _current(p for p in pods if is_validator(p))


def _current(pods):
    """A pod that goes is still there while its successor starts."""
    return max(
        pods,
        key=lambda p: (not p["metadata"].get("deletionTimestamp"), p["metadata"].get("creationTimestamp") or ""),
        default=None,
    )


def is_finished(pod):
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod):
    """Running, not going, and its Ready condition true."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def restarts(pod):
    return max((c.get("restartCount", 0) for c in (pod.get("status") or {}).get("containerStatuses") or []), default=0)


def waiting_reason(pod):
    """What the pod's containers wait for, such as CrashLoopBackOff ("" when they run)."""
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting")
        if waiting:
            return ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    return ""


def newest_revision(daemonset_uid, revisions):
    """Hash of the newest ControllerRevision of a DaemonSet, None when there is none."""
    owned = [r for r in revisions if controller_of(r).get("uid") == daemonset_uid]
    newest = max(owned, key=lambda r: r.get("revision", 0), default=None)
    return labels_of(newest).get(REVISION_HASH) if newest else None


def in_sync(pod, revisions):
    """Whether a driver pod is of the newest revision; None when that cannot be told."""
    newest = newest_revision(controller_of(pod).get("uid"), revisions)
    return None if newest is None else labels_of(pod).get(REVISION_HASH) == newest


def became_ready(pod):
    """When the pod became Ready, as an aware datetime, or None."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready" and condition["status"] == "True":
            return parse_time(condition.get("lastTransitionTime"))
    return None


def started(pod):
    """When the pod's containers last started, as an aware datetime, or None."""
    times = [
        parse_time((c.get("state") or {}).get("running", {}).get("startedAt"))
        for c in (pod.get("status") or {}).get("containerStatuses") or []
    ]
    return max(times) if times and None not in times else None


def validated(validator, driver, after=None):
    """Whether a validator pod is Ready, and not since before the driver started (nor before `after`, where given).

    The validator does not run again once it is Ready (NVIDIA/gpu-operator#2685), so an old one says nothing about a new
    driver. driver: its pod, None where the driver is the host's. None when the times cannot be told.
    """
    if validator is None or not is_ready(validator):
        return False
    done = became_ready(validator)
    bounds = ([started(driver)] if driver is not None else []) + ([after] if after else [])
    if bounds and None in (done, *bounds):
        return None
    return all(done >= bound for bound in bounds)


def parse_time(text):
    if not text:
        return None
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return None


def gpu_workloads(pods):
    """Pods that have reserved GPUs and are neither finished nor a DaemonSet's: they keep the driver in use."""
    return [
        pod
        for pod in pods
        if _reserves_gpu(pod) and controller_of(pod).get("kind") != "DaemonSet" and not is_finished(pod)
    ]


def _reserves_gpu(pod):
    for container in (pod.get("spec") or {}).get("containers") or []:
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        if any(name == keys.GPU_RESOURCE or name.startswith("nvidia.com/mig-") for name in asked):
            return True
    return False
