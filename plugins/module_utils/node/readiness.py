# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Is a GPU node ready after a change? Twelve checks, each its own answer. Pure.

None of the operator's labels alone says it: `upgrade-done` is also the state before a new version was noticed, and the
validator is content with seven GPUs of eight.
"""

from __future__ import annotations

import datetime
from typing import NamedTuple, Optional

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import budget, keys, operands

EXPECTED_TAINTS = (keys.GPU_RESOURCE, keys.HOLD_TAINT, keys.UNSCHEDULABLE_TAINT)
CLIQUE = "nvidia.com/gpu.clique"
GFD_TIMESTAMP = "nvidia.com/gfd.timestamp"
DEPLOY = "nvidia.com/gpu.deploy."


class Check(NamedTuple):
    """ok: None when it cannot be told, which is not ready. applies: False where the point has no meaning here."""

    name: str
    ok: Optional[bool]
    text: str
    applies: bool = True

    @property
    def passes(self):
        return not self.applies or self.ok is True


def checks(node, pods, revisions, expected_gpus=None, driver_version=None):
    """All checks for a Node, the pods on it, and the ControllerRevisions of the operator's namespace."""
    labels = operands.labels_of(node)
    driver = next((p for p in pods if operands.is_driver(p)), None)
    host_driver = labels.get(f"{DEPLOY}driver") == "pre-installed"
    return [
        _node(node),
        _taints(node),
        _present(labels),
        _deployed(labels),
        _driver(driver, revisions, host_driver),
        _validator(pods, driver),
        _discovery(labels, driver),
        _version(labels, driver_version),
        _resources(node, labels, expected_gpus),
        _mig(labels),
        _upgrade(labels),
        _clique(labels),
    ]


def _node(node):
    return Check(
        "node", budget.is_ready(node), "the node is Ready" if budget.is_ready(node) else "the node is not Ready"
    )


def _taints(node):
    strange = [
        f"{t['key']}={t.get('value', '')}:{t['effect']}"
        for t in (node.get("spec") or {}).get("taints") or []
        if t["key"] not in EXPECTED_TAINTS and t["effect"] != "PreferNoSchedule"
    ]
    return Check(
        "taints", not strange, f"somebody else keeps it out: {', '.join(strange)}" if strange else "no foreign taint"
    )


def _present(labels):
    value = labels.get(keys.GPU_PRESENT_LABEL)
    text = (
        "feature discovery sees NVIDIA GPUs"
        if value == "true"
        else f"label {keys.GPU_PRESENT_LABEL} is {value or 'not there'}"
    )
    return Check("gpu_present", value == "true", text)


def _deployed(labels):
    paused = sorted(key[len(DEPLOY) :] for key in _paused(labels))
    driver = labels.get(f"{DEPLOY}driver")
    if paused:
        return Check("operands", False, f"operands are paused: {', '.join(paused)}")
    ok = driver in ("true", "pre-installed")
    return Check("operands", ok, "no operand is paused" if ok else f"label {DEPLOY}driver is {driver or 'not there'}")


def _paused(labels):
    return [key for key, value in labels.items() if key.startswith(DEPLOY) and value.startswith("paused-")]


def _driver(pod, revisions, host_driver):
    if host_driver:
        return Check("driver_pod", None, "the driver is installed on the host", applies=False)
    if pod is None:
        return Check("driver_pod", False, "there is no driver pod on the node")
    synced = operands.in_sync(pod, revisions)
    name = pod["metadata"]["name"]
    if synced is None:
        return Check("driver_pod", None, f"the revision of driver pod {name} cannot be told")
    if not synced:
        return Check("driver_pod", False, f"driver pod {name} is of an older revision")
    if operands.is_ready(pod):
        return Check("driver_pod", True, f"driver pod {name} is Ready")
    why = operands.waiting_reason(pod)
    return Check("driver_pod", False, f"driver pod {name} is not Ready{': ' + why if why else ''}")


def _validator(pods, driver):
    found = [p for p in pods if operands.is_validator(p)]
    if not found:
        return Check("validator", False, "there is no validator pod on the node")
    pod = found[0]
    if not operands.is_ready(pod):
        return Check("validator", False, f"validator pod {pod['metadata']['name']} is not Ready")
    begun, done = operands.started(driver) if driver else None, operands.became_ready(pod)
    if driver is not None and (begun is None or done is None):
        return Check("validator", None, "it cannot be told whether the validator ran after the driver")
    if driver is not None and done < begun:
        return Check("validator", False, "the validator ran before the driver started")
    return Check("validator", True, f"validator pod {pod['metadata']['name']} is Ready")


def _discovery(labels, driver):
    try:
        at = datetime.datetime.fromtimestamp(int(labels[GFD_TIMESTAMP]), datetime.timezone.utc)
    except (KeyError, ValueError, OverflowError):
        return Check("feature_discovery", None, f"label {GFD_TIMESTAMP} is not there")
    begun = operands.started(driver) if driver else None
    if driver is not None and begun is None:
        return Check("feature_discovery", None, "the start of the driver is not known")
    if begun and at < begun:
        return Check("feature_discovery", False, "the GPU labels are from before the driver started")
    return Check("feature_discovery", True, "the GPU labels are fresh")


def _version(labels, wanted):
    found = labels.get(keys.DRIVER_VERSION_LABEL)
    if not wanted:
        return Check("driver_version", None, f"driver {found}", applies=False)
    return Check(
        "driver_version",
        found == wanted,
        f"driver {found or 'unknown'}" + ("" if found == wanted else f", not {wanted}"),
    )


def _resources(node, labels, expected):
    status = node.get("status") or {}
    capacity = (status.get("capacity") or {}).get(keys.GPU_RESOURCE)
    allocatable = (status.get("allocatable") or {}).get(keys.GPU_RESOURCE)
    if capacity is None or allocatable is None:
        return Check("gpus", None, "the node offers no GPUs yet")
    if capacity != allocatable:
        return Check("gpus", False, f"{allocatable} of {capacity} GPUs are healthy")
    sliced = labels.get(keys.MIG_CONFIG, "all-disabled") != "all-disabled"
    if expected is None or sliced:
        return Check("gpus", True, f"{allocatable} GPUs")
    count = int(labels.get(keys.COUNT_LABEL) or 0)
    replicas = int(labels.get("nvidia.com/gpu.replicas") or 1) or 1
    good = count == expected and int(allocatable) == expected * replicas
    return Check("gpus", good, f"{allocatable} GPUs" + ("" if good else f" ({count} found), {expected} are expected"))


def _mig(labels):
    if keys.MIG_CONFIG not in labels:
        return Check("mig", None, "not managed", applies=False)
    state = labels.get(keys.MIG_CONFIG_STATE)
    return Check(
        "mig", state == "success", f"MIG configuration {labels[keys.MIG_CONFIG]} is {state or 'not applied yet'}"
    )


def _upgrade(labels):
    state = labels.get(keys.UPGRADE_STATE)
    return Check("upgrade", state in (None, "", "upgrade-done"), f"the operator's upgrade state is {state or 'none'}")


def _clique(labels):
    if CLIQUE not in labels:
        return Check("fabric", None, "not part of an NVLink domain", applies=False)
    return Check("fabric", bool(labels[CLIQUE]), f"NVLink domain {labels[CLIQUE] or 'unknown'}")
