# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Job that runs a diagnostic on one node, and what its pod says. Pure."""

from __future__ import annotations

import hashlib
import json

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.records import label_value
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.execution import KILL_AFTER_S

CONTAINER = "diagnostic"
MANAGED_BY, OURS = "app.kubernetes.io/managed-by", "gpuops-lifecycle"
WORK = f"{keys.DOMAIN}/work"
RUN = f"{keys.DOMAIN}/run"
# Time for finding room, pulling the image and starting, on top of the diagnostic's own limit.
START_S = 900
# Last resort for a Job that nobody cleaned up.
KEEP_S = 3600
# Reasons of a waiting container that no waiting cures (kubernetes/kubernetes pkg/kubelet/images, pkg/kubelet/container).
LASTING = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError")


def name_of(node_name, tool):
    """The same for the same node and tool, so that a second run meets what the first left."""
    digest = hashlib.sha256(node_name.encode()).hexdigest()[:12]
    return f"{tool.replace('_', '-')}-{digest}"


def body(node, tool, argv, gpus, timeout_s, image, params, env=None, run=""):
    """batch/v1 Job: pinned to the node through the scheduler, so that its GPUs are counted; never started twice."""
    name = node["metadata"]["name"]
    labels = {
        MANAGED_BY: OURS,
        f"{keys.DOMAIN}/purpose": "diagnostics",
        f"{keys.DOMAIN}/node": label_value(name),
    }
    command = ["timeout", f"--kill-after={KILL_AFTER_S}", str(timeout_s), *argv]
    variables = [{"name": key, "value": value} for key, value in sorted((env or {}).items())]
    work = json.dumps([node["metadata"]["uid"], image, gpus, command, variables])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name_of(name, tool),
            "namespace": keys.NAMESPACE,
            "labels": labels,
            "annotations": {WORK: hashlib.sha256(work.encode()).hexdigest(), RUN: run},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": timeout_s + KILL_AFTER_S + START_S,
            "ttlSecondsAfterFinished": KEEP_S,
            "template": {
                "metadata": {"labels": labels},
                "spec": _pod(name, tool, command, variables, gpus, image, params),
            },
        },
    }


def _pod(node_name, tool, command, variables, gpus, image, params):
    pinned = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}]
    container = {
        "name": CONTAINER,
        "image": image,
        "command": command,
        "env": variables,
        "resources": {"limits": {keys.GPU_RESOURCE: str(gpus)}},
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": KILL_AFTER_S,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": pinned}}},
        # The node is held: by our taint and cordon, and perhaps by others' too.
        "tolerations": [
            {"operator": "Exists", "effect": "NoSchedule"},
            {"key": keys.GPU_RESOURCE, "operator": "Exists"},
            {"key": keys.HOLD_TAINT, "operator": "Exists"},
        ],
        "containers": [container],
    }
    if tool == "dcgmi_diag":
        # For DCGM's profiling counters, which are root's on the host.
        container["securityContext"] = {"capabilities": {"add": ["SYS_ADMIN"]}}
    else:
        # NCCL falls back to shared memory where it finds no direct path; a container's 64 MiB are too few for that.
        container["volumeMounts"] = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
        pod["volumes"] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]
    if params.get("image_pull_secret"):
        pod["imagePullSecrets"] = [{"name": params["image_pull_secret"]}]
    if params.get("runtime_class"):
        pod["runtimeClassName"] = params["runtime_class"]
    return pod


def is_ours(found):
    return (found["metadata"].get("labels") or {}).get(MANAGED_BY) == OURS


def can_be_adopted(found, wanted):
    """A Job that a run which was killed left behind and that still does the very work that is wanted now.

    Never a finished one: what it found may be about the node before its change.
    """
    work = (found["metadata"].get("annotations") or {}).get(WORK)
    return (
        work == wanted["metadata"]["annotations"][WORK]
        and not found["metadata"].get("deletionTimestamp")
        and (finished(found) is None)
    )


def finished(found):
    """The condition that ended a Job ({"type": "Complete" or "Failed", "reason": …}), or None while it works."""
    for condition in (found.get("status") or {}).get("conditions") or []:
        if condition["type"] in ("Failed", "Complete") and condition["status"] == "True":
            return condition
    return None


def exit_code(pod):
    """Exit code of the diagnostic container, or None while it runs or when it never did."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if status["name"] == CONTAINER and "terminated" in (status.get("state") or {}):
            return status["state"]["terminated"].get("exitCode")
    return None


def waiting_for(pod):
    """What a pod that does not run yet waits for, in one sentence ("" when it runs)."""
    status = pod.get("status") or {}
    waiting = _waiting(pod)
    if waiting:
        return ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    if status.get("phase") == "Pending":
        for condition in status.get("conditions") or []:
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return condition.get("message") or condition.get("reason") or "it is not scheduled"
        return "the node starts it"
    return ""


def never_runs(pod):
    """Why the diagnostic of this pod has not run and will not ("" while it may): admission, eviction, lost node, image."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed" and exit_code(pod) is None:
        return f"{status.get('reason') or 'Failed'}: {status.get('message') or 'no message'}"
    waiting = _waiting(pod)
    return waiting_for(pod) if waiting.get("reason") in LASTING else ""


def _waiting(pod):
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        if container["name"] == CONTAINER:
            return (container.get("state") or {}).get("waiting") or {}
    return {}
