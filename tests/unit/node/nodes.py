# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as the API gives them, for tables of cases."""

from __future__ import annotations

import json

HOLD = "lifecycle.gpuops.io/hold"
TAINT = {"key": HOLD, "value": "driver", "effect": "NoSchedule"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-12-01T10:00:00Z"}


def node(
    name="a", cordoned=False, holds=(), taints=(GPU_TAINT,), ready=True, labels=None, uid=None, driver="575.57.08"
):
    annotations = {HOLD: json.dumps(list(holds))} if holds else {}
    return {
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": "7",
            "labels": {
                "nvidia.com/gpu.product": "H100",
                "nvidia.com/gpu.count": "8",
                "nvidia.com/cuda.driver-version.full": driver,
                **(labels or {}),
            },
            "annotations": annotations,
        },
        "spec": {**({"unschedulable": True} if cordoned else {}), "taints": [dict(t) for t in taints]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "nodeInfo": {"kernelVersion": "6.8", "systemUUID": "s"},
            "capacity": {"nvidia.com/gpu": "8"},
        },
    }


def entry(owner="gpuops", by_us=True, run="run-1", **more):
    return {
        "owner": owner,
        "reason": "driver",
        "change": "driver",
        "run": run,
        "since": "2026-12-01T10:00:00Z",
        "cordoned_by_us": by_us,
        "unschedulable_before": not by_us,
        **more,
    }


def apply(obj, patch):
    """JSON merge patch (RFC 7396), as the server applies it."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply(merged.get(key), value)
    return merged
