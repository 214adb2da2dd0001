# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Job that runs a diagnostic on one node, and what its pod says. Pure."""

from __future__ import annotations

import hashlib

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.records import label_value

CONTAINER = "diagnostic"
COMMAND_HASH = f"{keys.DOMAIN}/command"
# Time for pulling the image and starting, on top of the diagnostic's own limit.
START_S = 900
KILL_AFTER_S = 30
# Last resort for a Job that nobody cleaned up.
KEEP_S = 3600


def name_of(node_name, tool):
    """The same for the same node and tool, so that a second run meets what the first left."""
    digest = hashlib.sha256(node_name.encode()).hexdigest()[:12]
    return f"{tool.replace('_', '-')}-{digest}"


def body(node_name, tool, argv, gpus, timeout_s, image, params):
    """batch/v1 Job: pinned to the node through the scheduler, so that its GPUs are counted; never started twice."""
    command = ["timeout", f"--kill-after={KILL_AFTER_S}", str(timeout_s), *argv]
    labels = {
        "app.kubernetes.io/managed-by": "gpuops-lifecycle",
        f"{keys.DOMAIN}/purpose": "diagnostics",
        f"{keys.DOMAIN}/node": label_value(node_name),
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": KILL_AFTER_S,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]},
                    ]
                }
            }
        },
        "tolerations": [
            {"key": keys.GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
            {"key": keys.HOLD_TAINT, "operator": "Exists", "effect": "NoSchedule"},
            {"key": keys.UNSCHEDULABLE_TAINT, "operator": "Exists", "effect": "NoSchedule"},
        ],
        "containers": [
            {
                "name": CONTAINER,
                "image": image,
                "command": command,
                "resources": {"limits": {keys.GPU_RESOURCE: str(gpus)}},
                "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}} if tool == "dcgmi_diag" else {},
            }
        ],
    }
    if params.get("image_pull_secret"):
        pod["imagePullSecrets"] = [{"name": params["image_pull_secret"]}]
    if params.get("runtime_class"):
        pod["runtimeClassName"] = params["runtime_class"]
    digest = hashlib.sha256("\0".join([image, *command]).encode()).hexdigest()[:16]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name_of(node_name, tool),
            "namespace": keys.NAMESPACE,
            "labels": labels,
            "annotations": {COMMAND_HASH: digest},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": timeout_s + KILL_AFTER_S + START_S,
            "ttlSecondsAfterFinished": KEEP_S,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def exit_code(pod):
    """Exit code of the diagnostic container, or None while it runs or when it never did."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if status["name"] == CONTAINER and "terminated" in (status.get("state") or {}):
            return status["state"]["terminated"].get("exitCode")
    return None


def waiting_for(pod):
    """What a pod that does not run yet waits for, in one sentence ("" when it runs)."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting")
        if waiting:
            return ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    if status.get("phase") == "Pending":
        for condition in status.get("conditions") or []:
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return condition.get("message") or condition.get("reason") or "it is not scheduled"
        return "the node starts it"
    return ""


def failed_without_running(pod):
    """Why a pod ended before its container ran ("" if it did not): admission, eviction, lost node."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed" and exit_code(pod) is None:
        return f"{status.get('reason', 'Failed')}: {status.get('message', 'no message')}"
    return ""
