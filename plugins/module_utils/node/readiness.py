# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Is a GPU node ready after a change? Twelve checks, each its own answer. Pure.

None of the operator's labels alone says it: `upgrade-done` is also the state before a new version was noticed, and the
validator is content with seven GPUs of eight.
"""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple, Optional

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import budget, keys, operands

EXPECTED_TAINTS = (keys.GPU_RESOURCE, keys.HOLD_TAINT, keys.UNSCHEDULABLE_TAINT)
CLIQUE = "nvidia.com/gpu.clique"
GFD_TIMESTAMP = "nvidia.com/gfd.timestamp"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
MIG_COUNT = re.compile(r"(nvidia\.com/mig-[0-9a-z.+]+?)\.count$")
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


def checks(node, pods, revisions, expected_gpus=None, driver_version=None, after=None):
    """All checks for a Node, the pods on it, and the ControllerRevisions of the operator's namespace.

    after: aware datetime (of a reboot, a repair); what the validator and feature discovery found must not be older.
    """
    labels = operands.labels_of(node)
    host_driver = labels.get(f"{DEPLOY}driver") == "pre-installed"
    driver = None if host_driver else operands.driver_of(pods)
    return [
        _node(node),
        _taints(node),
        _present(labels),
        _deployed(labels),
        _driver(driver, revisions, host_driver),
        _validator(operands.validator_of(pods), driver, after),
        _discovery(labels, driver, after),
        _version(labels, driver_version),
        _resources(node, labels, expected_gpus),
        _mig(labels),
        _upgrade(node),
        _clique(labels),
    ]


def _node(node):
    return Check(
        "node", budget.is_ready(node), "the node is Ready" if budget.is_ready(node) else "the node is not Ready"
    )


def foreign_taints(node):
    """Taints that keep work or the operator's pods off and belong neither to GPUs nor to a hold, as text."""
    return [
        f"{t['key']}{'=' + t['value'] if t.get('value') else ''}:{t['effect']}"
        for t in (node.get("spec") or {}).get("taints") or []
        if t["key"] not in EXPECTED_TAINTS and t["effect"] != "PreferNoSchedule"
    ]


def _taints(node):
    strange = foreign_taints(node)
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


def _validator(pod, driver, after):
    if pod is None:
        return Check("validator", False, "there is no validator pod on the node")
    name = pod["metadata"]["name"]
    if not operands.is_ready(pod):
        why = operands.waiting_reason(pod)
        return Check("validator", False, f"validator pod {name} is not Ready{': ' + why if why else ''}")
    ran = operands.validated(pod, driver, after)
    if ran is None:
        return Check("validator", None, "it cannot be told whether the validator ran after the driver")
    if not ran:
        late = "the driver started" if operands.validated(pod, driver) is False else f"{after:%Y-%m-%dT%H:%M:%SZ}"
        return Check("validator", False, f"validator pod {name} was Ready before {late}")
    return Check("validator", True, f"validator pod {name} is Ready")


def _discovery(labels, driver, after):
    """GFD writes its timestamp when it starts, not with each pass (NVIDIA/k8s-device-plugin)."""
    text = labels.get(GFD_TIMESTAMP)
    if text is None:
        return Check("feature_discovery", None, f"label {GFD_TIMESTAMP} is not there")
    try:
        at = datetime.datetime.fromtimestamp(int(text), datetime.timezone.utc)
    except (ValueError, OverflowError, OSError):
        return Check("feature_discovery", None, f"label {GFD_TIMESTAMP} is no time: {text}")
    begun = operands.started(driver) if driver else None
    if driver is not None and begun is None:
        return Check("feature_discovery", None, "the start of the driver is not known")
    if begun and at < begun:
        return Check("feature_discovery", False, "the GPU labels are from before the driver started")
    if after and at < after:
        return Check("feature_discovery", False, f"the GPU labels are from before {after:%Y-%m-%dT%H:%M:%SZ}")
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
    """Capacity = allocatable = what feature discovery found = what was expected; a sick GPU leaves allocatable only."""
    status = node.get("status") or {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    try:
        found = _discovered(labels)
        offered = {name: (int(capacity.get(name, 0)), int(allocatable.get(name, 0))) for name in found}
        replicas = int(labels.get(REPLICAS_LABEL) or 1) or 1
    except ValueError as error:
        return Check("gpus", None, f"the number of GPUs cannot be told: {error}")
    if not found:
        return Check("gpus", None, f"label {keys.COUNT_LABEL} is not there")
    for name, wanted in sorted(found.items()):
        there, healthy = offered[name]
        if not there:
            return Check("gpus", None, f"the node offers no {name} yet")
        if there != healthy:
            return Check("gpus", False, f"{healthy} of {there} {name} are healthy")
        if there != wanted:
            return Check("gpus", False, f"the node offers {there} {name}, feature discovery found {wanted}")
    text = ", ".join(f"{count} {name}" for name, count in sorted(found.items()))
    if expected is None:
        return Check("gpus", True, text)
    if _sliced(labels):
        return Check("gpus", True, f"{text}; sliced by MIG, so the {expected} GPUs themselves are not counted here")
    good = found[keys.GPU_RESOURCE] == expected * replicas
    return Check("gpus", good, text if good else f"{text}, but {expected} GPUs are expected")


def _sliced(labels):
    return labels.get(keys.MIG_CONFIG, "all-disabled") != "all-disabled"


def _discovered(labels):
    """{resource: units} by the labels of feature discovery; MIG strategy mixed has one resource for each profile."""
    counts = {}
    for key, value in labels.items():
        profile = MIG_COUNT.match(key)
        if profile:
            counts[profile[1]] = int(value) * (int(labels.get(f"{profile[1]}.replicas") or 1) or 1)
    if counts:
        return counts
    if keys.COUNT_LABEL not in labels:
        return {}
    replicas = int(labels.get(REPLICAS_LABEL) or 1) or 1
    return {keys.GPU_RESOURCE: int(labels[keys.COUNT_LABEL]) * replicas}


def _mig(labels):
    if keys.MIG_CONFIG not in labels:
        return Check("mig", None, "not managed", applies=False)
    state = labels.get(keys.MIG_CONFIG_STATE)
    return Check(
        "mig", state == "success", f"MIG configuration {labels[keys.MIG_CONFIG]} is {state or 'not applied yet'}"
    )


def _upgrade(node):
    labels, ours = operands.labels_of(node), keys.SKIP_SET_BY in (node["metadata"].get("annotations") or {})
    state = labels.get(keys.UPGRADE_STATE)
    if ours:
        return Check("upgrade", False, f"our label {keys.UPGRADE_SKIP} still keeps the operator from upgrading it")
    return Check("upgrade", state in (None, "", "upgrade-done"), f"the operator's upgrade state is {state or 'none'}")


def _clique(labels):
    if CLIQUE not in labels:
        return Check("fabric", None, "not part of an NVLink domain", applies=False)
    return Check("fabric", bool(labels[CLIQUE]), f"NVLink domain {labels[CLIQUE] or 'unknown'}")
