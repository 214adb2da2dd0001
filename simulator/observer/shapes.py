# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the observer reads in objects and user agents."""

from __future__ import annotations

import json

from simulator.objects import condition, controller_of, gpu_request, is_finished

PRODUCT, OPERATOR, PEOPLE = "gpuops-lifecycle", "gpu-operator", "people"
HOLD = "lifecycle.gpuops.io/hold"
# Diagnostics of the product, and the operator's own pods.
EXEMPT = ("gpuops-system", "gpu-operator")


def family(actor):
    """Who is behind a Change.actor: the product, the GPU operator, a part of the cluster (its own name), or people."""
    if actor.startswith(PRODUCT):
        return PRODUCT
    if actor.startswith(("controller/", "kubelet/")) or actor in (OPERATOR, "scenario", "cluster"):
        return actor
    return PEOPLE


def holders(node):
    """Owners in the hold annotation; one unnamed owner when it cannot be read."""
    text = (node["metadata"].get("annotations") or {}).get(HOLD)
    if not text:
        return []
    try:
        return [entry["owner"] for entry in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        return ["?"]


def taints(node):
    """{(key, effect)}; empty for None."""
    return {(t["key"], t["effect"]) for t in ((node or {}).get("spec") or {}).get("taints") or []}


def is_cordoned(node):
    return bool(((node or {}).get("spec") or {}).get("unschedulable"))


def has_hold_taint(node):
    return any(key == HOLD for key, _effect in taints(node))


def is_held(node):
    return bool(holders(node)) or has_hold_taint(node)


def is_schedulable(node):
    """Whether new work can come; an annotation alone keeps nothing off."""
    return not is_cordoned(node) and not has_hold_taint(node)


def is_out(node):
    """Not there for new work, for whatever reason."""
    return is_cordoned(node) or is_held(node) or not condition(node, "Ready")


def is_workload(pod):
    """Work that a drain has to move: not finished, not of a DaemonSet or the node itself, not of the machinery."""
    ref = controller_of(pod)
    stays = ref is not None and ref["kind"] in ("DaemonSet", "Node")
    return not stays and not is_finished(pod) and pod["metadata"].get("namespace") not in EXEMPT


def uses_gpus(pod):
    return gpu_request(pod) > 0 and not is_finished(pod) and pod["metadata"].get("namespace") not in EXEMPT
