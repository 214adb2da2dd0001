# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hold on a node: who keeps it out, what taking and giving back means. Pure: nodes in, merge patches out.

A hold is one entry in the annotation, the taint (where the GPU operands tolerate it) and a cordon, taken in one patch
and given back in one patch, each bound to the resourceVersion it was decided on. Several owners may hold; the last one
out uncordons, and only if one of them cordoned. Nothing that somebody else put on is ever taken off.
"""

from __future__ import annotations

import json
import re

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

TOLERATED_BY_ALL = {"key": keys.HOLD_TAINT, "effect": "NoSchedule"}


class Unreadable(Failed):
    """The hold annotation is not what we write; guessing at it could release somebody's hold."""


def entries(node):
    """Hold entries of a node, oldest first: dicts with owner, reason, change, run, since, cordoned_by_us, …"""
    text = (node["metadata"].get("annotations") or {}).get(keys.HOLD_ANNOTATION)
    if text is None:
        return []
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Unreadable(
            f"annotation {keys.HOLD_ANNOTATION} of {node['metadata']['name']} is not JSON: {error}"
        ) from error
    if not isinstance(found, list) or not all(isinstance(e, dict) and isinstance(e.get("owner"), str) for e in found):
        raise Unreadable(f"annotation {keys.HOLD_ANNOTATION} of {node['metadata']['name']} is not a list of holds")
    return found


def entry_of(node, owner):
    return next((entry for entry in entries(node) if entry["owner"] == owner), None)


def is_cordoned(node):
    return bool((node.get("spec") or {}).get("unschedulable"))


def is_tainted(node):
    return any(taint["key"] == keys.HOLD_TAINT for taint in (node.get("spec") or {}).get("taints") or [])


def is_out(node):
    """No new work can be scheduled here on account of a cordon or a hold (readiness is another matter)."""
    return is_cordoned(node) or bool(entries(node)) or is_tainted(node)


def foreign_cordon(node):
    """The node is cordoned and none of our holds did it."""
    return is_cordoned(node) and not any(entry.get("cordoned_by_us") for entry in entries(node))


def take(node, owner, reason, change, run, since, taint, fingerprint, expires=None):
    """Merge patch that makes `owner` hold the node, or None when that is already so in every part.

    run: the playbook run; an entry left by another run of the same owner is gone on with and remembers it.
    taint: whether the hold taint may be set. fingerprint: domains of the node's state now, kept from the first taking.
    """
    held = entries(node)
    mine = next((entry for entry in held if entry["owner"] == owner), None)
    if mine is None:
        mine = {
            "owner": owner,
            "reason": reason,
            "change": change,
            "run": run,
            "since": since,
            "cordoned_by_us": not is_cordoned(node),
            "unschedulable_before": is_cordoned(node) and not any(entry.get("cordoned_by_us") for entry in held),
            "fingerprint": fingerprint,
            "qualification_before": (node["metadata"].get("labels") or {}).get(keys.QUALIFICATION_LABEL),
        }
        held = [*held, mine]
    else:
        updated = {**mine, "reason": reason, "change": change, "run": run}
        if mine.get("run") != run:
            updated["taken_over_from"] = mine.get("run")
        if not is_cordoned(node):
            updated["cordoned_by_us"] = True
        held = [updated if entry is mine else entry for entry in held]
        mine = updated
    if expires:
        mine["expires"] = expires
    labels = {keys.STAGE_LABEL: keys.STAGE_OF_CHANGE[change]}
    if (node["metadata"].get("labels") or {}).get(keys.QUALIFICATION_LABEL) != "failed":
        labels[keys.QUALIFICATION_LABEL] = "held"
    return _patch(node, held, cordon=True, taint=_hold_taint(change) if taint else None, labels=labels)


def give_back(node, owner, qualification):
    """Merge patch that ends `owner`'s hold, or None when it holds nothing.

    qualification: value for the qualification label once nobody holds the node any more (None removes it).
    """
    held = entries(node)
    mine = next((entry for entry in held if entry["owner"] == owner), None)
    if mine is None:
        return None
    rest = [entry for entry in held if entry is not mine]
    if rest:
        if mine.get("cordoned_by_us") and not any(entry.get("cordoned_by_us") for entry in rest):
            rest[0] = {**rest[0], "cordoned_by_us": True}
        return _patch(node, rest, cordon=is_cordoned(node), taint=_keep, labels={})
    labels = {keys.STAGE_LABEL: "ready", keys.QUALIFICATION_LABEL: qualification}
    cordon = is_cordoned(node) and not mine.get("cordoned_by_us")
    return _patch(node, [], cordon=cordon, taint=None, labels=labels)


def set_qualification(node, value):
    """Merge patch for the qualification label alone, or None."""
    if (node["metadata"].get("labels") or {}).get(keys.QUALIFICATION_LABEL) == value:
        return None
    return {
        "metadata": {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "labels": {keys.QUALIFICATION_LABEL: value},
        }
    }


def tolerates(tolerations, taint):
    """Whether one of a pod's tolerations covers a taint (k8s.io/component-helpers, ToleratesTaint)."""
    for toleration in tolerations or []:
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists" or (toleration.get("key") and toleration.get("value", "") == taint.get("value", "")):
            return True
    return False


def intolerant_operands(daemonsets):
    """Names of GPU operands' DaemonSets that the hold taint would keep off a node.

    One such driver DaemonSet freezes the operator's rollout on all nodes, measured on the operator of September 2025:
    desiredNumberScheduled then differs from the number of driver pods and every reconcile is given up.
    """
    taint = {**TOLERATED_BY_ALL, "value": "any"}
    return [
        f"{ds['metadata']['namespace']}/{ds['metadata']['name']}"
        for ds in daemonsets
        if _is_operand(ds) and not tolerates(ds["spec"]["template"]["spec"].get("tolerations"), taint)
    ]


def _is_operand(daemonset):
    selector = daemonset["spec"]["template"]["spec"].get("nodeSelector") or {}
    return any(key.startswith("nvidia.com/gpu.deploy.") for key in selector)


def _hold_taint(change):
    return {"key": keys.HOLD_TAINT, "value": re.sub(r"[^A-Za-z0-9_.-]", "-", change)[:63], "effect": "NoSchedule"}


_keep = object()


def _patch(node, held, cordon, taint, labels):
    """One merge patch for all parts of the hold, None when every part is already as wanted."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    patch_meta, patch_spec = {}, {}
    text = json.dumps(held, separators=(",", ":"), sort_keys=True) if held else None
    if text != (metadata.get("annotations") or {}).get(keys.HOLD_ANNOTATION) and held != entries(node):
        patch_meta["annotations"] = {keys.HOLD_ANNOTATION: text}
    changed = {k: v for k, v in labels.items() if (metadata.get("labels") or {}).get(k) != v}
    if changed:
        patch_meta["labels"] = changed
    if cordon != is_cordoned(node):
        patch_spec["unschedulable"] = True if cordon else None
    taints = spec.get("taints") or []
    if taint is not _keep:
        wanted = [t for t in taints if t["key"] != keys.HOLD_TAINT]
        if taint:
            wanted.append(taint)
        if sorted(map(_taint_id, wanted)) != sorted(map(_taint_id, taints)):
            patch_spec["taints"] = wanted or None
    if not patch_meta and not patch_spec:
        return None
    patch_meta["resourceVersion"] = metadata["resourceVersion"]
    return {"metadata": patch_meta, **({"spec": patch_spec} if patch_spec else {})}


def _taint_id(taint):
    return (taint["key"], taint.get("value", ""), taint["effect"])
