# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables behind `kubectl get`: the columns of the real server for what people look at."""

from __future__ import annotations

import datetime
import re

from simulator.objects import condition
from simulator.selectors import dig


def age(obj, now=None):
    return duration_since(obj["metadata"].get("creationTimestamp"), now)


def duration_since(stamp, now=None):
    """A time stamp as kubectl shows it (duration.HumanDuration)."""
    if not stamp:
        return "<unknown>"
    then = datetime.datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    seconds = max(0, int(((now or datetime.datetime.now(datetime.timezone.utc)) - then).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def _node_status(node):
    words = ["Ready" if condition(node, "Ready") else "NotReady"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node):
    prefix = "node-role.kubernetes.io/"
    roles = sorted(k.removeprefix(prefix) for k in node["metadata"].get("labels") or {} if k.startswith(prefix))
    return ",".join(roles) or "<none>"


def _address(node, kind):
    addresses = (node.get("status") or {}).get("addresses") or []
    return next((a["address"] for a in addresses if a["type"] == kind), "<none>")


def _ready_containers(pod):
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return f"{sum(1 for c in statuses if c.get('ready'))}/{len(pod['spec']['containers'])}"


def pod_status(pod):
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        if state.get("waiting", {}).get("reason"):
            return state["waiting"]["reason"]
        if "terminated" in state:
            code = state["terminated"].get("exitCode", 0)
            return state["terminated"].get("reason") or ("Completed" if code == 0 else "Error")
    return status.get("reason") or status.get("phase", "Pending")


def _restarts(pod):
    return str(sum(c.get("restartCount", 0) for c in (pod.get("status") or {}).get("containerStatuses") or []))


def _text(path, missing="<none>"):
    return lambda obj: dig(obj, path) or missing


def _number(path):
    def read(obj):
        text = dig(obj, path)
        return int(text) if text else 0

    read.type = "integer"
    return read


def _selector(node_selector):
    return ",".join(f"{k}={v}" for k, v in (node_selector or {}).items()) or "<none>"


def _job_status(job):
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if condition(job, kind):
            return word
    return "Running"


# plural -> (heading, only in -o wide, function)
COLUMNS = {
    "nodes": [
        ("Status", 0, _node_status),
        ("Roles", 0, _roles),
        ("Age", 0, age),
        ("Version", 0, _text("status.nodeInfo.kubeletVersion", "")),
        ("Internal-IP", 1, lambda o: _address(o, "InternalIP")),
        ("External-IP", 1, lambda o: _address(o, "ExternalIP")),
        ("OS-Image", 1, _text("status.nodeInfo.osImage", "<unknown>")),
        ("Kernel-Version", 1, _text("status.nodeInfo.kernelVersion", "<unknown>")),
        ("Container-Runtime", 1, _text("status.nodeInfo.containerRuntimeVersion", "<unknown>")),
    ],
    "pods": [
        ("Ready", 0, _ready_containers),
        ("Status", 0, pod_status),
        ("Restarts", 0, _restarts),
        ("Age", 0, age),
        ("IP", 1, _text("status.podIP")),
        ("Node", 1, _text("spec.nodeName")),
        ("Nominated Node", 1, _text("status.nominatedNodeName")),
        ("Readiness Gates", 1, lambda _o: "<none>"),
    ],
    "deployments": [
        ("Ready", 0, lambda o: f"{dig(o, 'status.readyReplicas') or 0}/{dig(o, 'spec.replicas')}"),
        ("Up-to-date", 0, _number("status.updatedReplicas")),
        ("Available", 0, _number("status.availableReplicas")),
        ("Age", 0, age),
    ],
    "replicasets": [
        ("Desired", 0, _number("spec.replicas")),
        ("Current", 0, _number("status.replicas")),
        ("Ready", 0, _number("status.readyReplicas")),
        ("Age", 0, age),
    ],
    "statefulsets": [
        ("Ready", 0, lambda o: f"{dig(o, 'status.readyReplicas') or 0}/{dig(o, 'spec.replicas')}"),
        ("Age", 0, age),
    ],
    "daemonsets": [
        ("Desired", 0, _number("status.desiredNumberScheduled")),
        ("Current", 0, _number("status.currentNumberScheduled")),
        ("Ready", 0, _number("status.numberReady")),
        ("Up-to-date", 0, _number("status.updatedNumberScheduled")),
        ("Available", 0, _number("status.numberAvailable")),
        ("Node Selector", 0, lambda o: _selector(o["spec"]["template"]["spec"].get("nodeSelector"))),
        ("Age", 0, age),
    ],
    "jobs": [
        ("Status", 0, _job_status),
        ("Completions", 0, lambda o: f"{dig(o, 'status.succeeded') or 0}/{dig(o, 'spec.completions') or 1}"),
        ("Duration", 0, lambda o: duration_since(dig(o, "status.startTime")) if dig(o, "status.startTime") else ""),
        ("Age", 0, age),
    ],
    "poddisruptionbudgets": [
        ("Min Available", 0, _text("spec.minAvailable", "N/A")),
        ("Max Unavailable", 0, _text("spec.maxUnavailable", "N/A")),
        ("Allowed Disruptions", 0, _number("status.disruptionsAllowed")),
        ("Age", 0, age),
    ],
    "namespaces": [("Status", 0, _text("status.phase")), ("Age", 0, age)],
    "events": [
        ("Last Seen", 0, lambda o: duration_since(o.get("lastTimestamp"))),
        ("Type", 0, _text("type")),
        ("Reason", 0, _text("reason")),
        ("Object", 0, lambda o: f"{dig(o, 'involvedObject.kind').lower()}/{dig(o, 'involvedObject.name')}"),
        ("Message", 0, _text("message")),
    ],
    "leases": [("Holder", 0, _text("spec.holderIdentity")), ("Age", 0, age)],
    "services": [
        ("Type", 0, _text("spec.type", "ClusterIP")),
        ("Cluster-IP", 0, _text("spec.clusterIP")),
        ("External-IP", 0, lambda _o: "<none>"),
        (
            "Port(s)",
            0,
            lambda o: ",".join(str(p["port"]) for p in (o.get("spec") or {}).get("ports") or []) or "<none>",
        ),
        ("Age", 0, age),
    ],
    "configmaps": [("Data", 0, lambda o: len(o.get("data") or {})), ("Age", 0, age)],
    "secrets": [("Type", 0, _text("type", "Opaque")), ("Data", 0, lambda o: len(o.get("data") or {})), ("Age", 0, age)],
    "customresourcedefinitions": [("Created At", 0, _text("metadata.creationTimestamp"))],
}


def _json_path(path):
    """The simple paths of additionalPrinterColumns, dots escaped by a backslash."""
    parts = [part.replace("\\.", ".") for part in re.split(r"(?<!\\)\.", path.lstrip("."))]

    def read(obj):
        for part in parts:
            obj = obj.get(part) if isinstance(obj, dict) else None
        return "" if obj is None else obj

    return read


def columns_of(resource):
    if resource.crd and resource.columns:
        found = []
        for column in resource.columns:
            read = _json_path(column["jsonPath"])
            show = (lambda o, read=read: duration_since(read(o) or None)) if column["type"] == "date" else read
            found.append((column["name"], column.get("priority", 0), show))
        return found
    return COLUMNS.get(resource.plural, [("Age", 0, age)])


def _heading(name, priority, read):
    kind = getattr(read, "type", "string")
    return {"name": name, "type": kind, "format": "", "description": "", "priority": priority}


def table(resource, objects, meta):
    """meta.k8s.io/v1 Table of the objects."""
    columns = columns_of(resource)
    head = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [
            head,
            *(_heading(name, priority, read) for name, priority, read in columns),
        ],
        "rows": [
            {
                "cells": [obj["metadata"]["name"], *(read(obj) for _name, _priority, read in columns)],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": obj["metadata"],
                },
            }
            for obj in objects
        ],
    }
