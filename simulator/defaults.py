# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fields that the API server fills in when an object is created."""

from __future__ import annotations


def apply_defaults(resource, obj):
    """On create: the spec, the first status, and labels that belong to the new object."""
    fill_spec(resource, obj)
    _CREATED.get(resource.plural, _nothing)(obj)


def fill_spec(resource, obj):
    """On every write, so that writing an object back without its defaults is no change."""
    _SPECS.get(resource.plural, _nothing)(obj)


def _nothing(_obj):
    return


def _template(spec):
    """Of a pod's spec, also inside a workload."""
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
        container.setdefault("imagePullPolicy", "Always" if tag in ("", "latest") else "IfNotPresent")
    for field, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
    ):
        spec.setdefault(field, value)


def _pod(pod):
    spec = pod["spec"]
    _template(spec)
    for field, value in (
        ("serviceAccountName", "default"),
        ("serviceAccount", "default"),
        ("priority", 0),
        ("enableServiceLinks", True),
        ("preemptionPolicy", "PreemptLowerPriority"),
    ):
        spec.setdefault(field, value)
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.get("key") in (key, None) and t.get("effect") in ("NoExecute", None) for t in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _new_pod(pod):
    asks = any((c.get("resources") or {}).get("requests") for c in pod["spec"].get("containers") or [])
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable" if asks else "BestEffort"}


def _node(node):
    node.setdefault("spec", {})
    node.setdefault("status", {})


def _namespace(namespace):
    namespace["status"] = {"phase": "Active"}
    namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = namespace["metadata"]["name"]
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def _replicated(workload):
    workload["spec"].setdefault("replicas", 1)
    _template((workload["spec"].get("template") or {}).get("spec") or {})


def _new_replicated(workload):
    workload["status"] = {"replicas": 0}


def _deployment(deployment):
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    if not deployment["spec"].get("strategy"):
        deployment["spec"]["strategy"] = rolling
    deployment["spec"].setdefault("revisionHistoryLimit", 10)
    deployment["spec"].setdefault("progressDeadlineSeconds", 600)
    _replicated(deployment)


def _daemonset(daemonset):
    _template(daemonset["spec"]["template"]["spec"])
    daemonset["spec"].setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})


def _new_daemonset(daemonset):
    daemonset["status"] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }


def _job(job):
    spec = job["spec"]
    if spec.get("parallelism") is None:
        spec.setdefault("completions", 1)
    replacement = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    for field, value in (
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", replacement),
    ):
        spec.setdefault(field, value)
    uid = job["metadata"]["uid"]
    own = {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
    named = {"batch.kubernetes.io/job-name": job["metadata"]["name"], "job-name": job["metadata"]["name"]}
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels.update({**own, **named})
    job["status"] = {}


def _budget(pdb):
    pdb["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


_SPECS = {
    "pods": _pod,
    "deployments": _deployment,
    "replicasets": _replicated,
    "statefulsets": _replicated,
    "replicationcontrollers": _replicated,
    "daemonsets": _daemonset,
}
_CREATED = {
    "pods": _new_pod,
    "nodes": _node,
    "namespaces": _namespace,
    "deployments": _new_replicated,
    "replicasets": _new_replicated,
    "statefulsets": _new_replicated,
    "replicationcontrollers": _new_replicated,
    "daemonsets": _new_daemonset,
    "jobs": _job,
    "poddisruptionbudgets": _budget,
}
