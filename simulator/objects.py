# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small helpers on Kubernetes objects as plain dicts."""

from __future__ import annotations

import orjson


def clone(value):
    """Deep copy of plain JSON, about fifteen times faster than copy.deepcopy."""
    return orjson.loads(orjson.dumps(value))


def key_of(obj):
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def condition(obj, kind):
    """True when the condition is "True"."""
    return any(c["type"] == kind and c["status"] == "True" for c in (obj.get("status") or {}).get("conditions") or [])


def set_condition(obj, kind, status, stamp, reason="", message="", **more):
    """Set one condition in place; the transition time moves only when the status does."""
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    found = next((c for c in conditions if c["type"] == kind), None)
    if found is None:
        found = {"type": kind}
        conditions.append(found)
    if found.get("status") != status:
        found["lastTransitionTime"] = stamp
    found.update(status=status, reason=reason, message=message, **more)


def controller_of(obj):
    return next((ref for ref in obj["metadata"].get("ownerReferences") or [] if ref.get("controller")), None)


def owner_reference(obj):
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_terminating(obj):
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_finished(pod):
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def requests_of(pod):
    """{resource: amount} of a pod's containers: cpu in cores, memory in bytes, devices as they are."""
    total = {}
    for container in pod["spec"].get("containers") or []:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, text in asked.items():
            total[name] = total.get(name, 0) + quantity(text)
    return total


UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3}


def quantity(text):
    """A resource.Quantity as a number."""
    text = str(text)
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    return float(text)


def tolerates(tolerations, taint):
    return any(
        (not t.get("effect") or t["effect"] == taint["effect"])
        and (not t.get("key") or t["key"] == taint["key"])
        and (t.get("operator") == "Exists" or (t.get("key") and t.get("value", "") == taint.get("value", "")))
        for t in tolerations or []
    )


def gpu_request(pod):
    return sum(
        amount for name, amount in requests_of(pod).items() if name.startswith(("nvidia.com/gpu", "nvidia.com/mig-"))
    )
