# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods and budgets as the API shows them, for tables of cases."""

from __future__ import annotations

import itertools

_numbers = itertools.count(1)


def pod(name="web-1", namespace="shop", owner="ReplicaSet/web", ready=True, phase="Running", **more):
    """A pod dict. owner: "Kind/name" or None. more: labels, annotations, volumes, grace, deleted, finalizers, limits,
    tolerations, uid, node, created, api (of the owner)."""
    metadata = {
        "namespace": namespace,
        "name": name,
        "uid": more.get("uid") or f"uid-{name}",
        "resourceVersion": str(next(_numbers)),
        "creationTimestamp": more.get("created", "2026-12-01T10:00:00Z"),
        "labels": more.get("labels", {"app": "web"}),
        "annotations": more.get("annotations", {}),
    }
    if owner:
        kind, _slash, owner_name = owner.partition("/")
        metadata["ownerReferences"] = [
            {
                "apiVersion": more.get("api", "apps/v1"),
                "kind": kind,
                "name": owner_name,
                "uid": f"uid-{owner_name}",
                "controller": more.get("controls", True),
            }
        ]
    if more.get("deleted"):
        metadata["deletionTimestamp"] = more["deleted"]
        metadata["deletionGracePeriodSeconds"] = more.get("grace", 30)
    if more.get("finalizers"):
        metadata["finalizers"] = more["finalizers"]
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": more.get("node", "gpu-node-a"),
            "terminationGracePeriodSeconds": more.get("grace", 30),
            "volumes": more.get("volumes", []),
            "tolerations": more.get("tolerations", []),
            "containers": [{"name": "main", "resources": {"limits": more.get("limits", {})}}],
        },
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def pdb(name="web", namespace="shop", allowed=1, needs=1, has=2, expected=2, **more):
    """A PodDisruptionBudget dict. more: selector (default app=web), spec, generation, observed, conditions, disrupted,
    version, policy."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}, **more.get("spec", {})}
    if "selector" in more:
        spec["selector"] = more["selector"]
    if more.get("policy"):
        spec["unhealthyPodEvictionPolicy"] = more["policy"]
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-pdb-{name}",
            "resourceVersion": more.get("version", "1"),
            "generation": more.get("generation", 1),
        },
        "spec": spec,
        "status": {
            "observedGeneration": more.get("observed", more.get("generation", 1)),
            "disruptionsAllowed": allowed,
            "desiredHealthy": needs,
            "currentHealthy": has,
            "expectedPods": expected,
            "disruptedPods": more.get("disrupted", {}),
            "conditions": more.get("conditions", []),
        },
    }


def node(cordoned=True, uid="uid-node", annotations=None):
    return {
        "metadata": {
            "name": "gpu-node-a",
            "uid": uid,
            "resourceVersion": str(next(_numbers)),
            "labels": {},
            "annotations": annotations or {},
        },
        "spec": {"unschedulable": cordoned},
    }
