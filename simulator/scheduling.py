# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a pod may go: selectors, taints, resources. Pure; scheduler, DaemonSet controller and kubelet use it.

What depends on other pods of the cluster (spreading, affinity between pods) is in simulator/spreading.py.
"""

from __future__ import annotations

from simulator.objects import condition, is_finished, quantity, requests_of, tolerates
from simulator.selectors import match_expression

UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def fits_selectors(spec, node):
    """nodeSelector and required node affinity (labels, and matchFields on metadata.name)."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return not required or any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or [])


def _term_matches(term, node):
    labels, name = node["metadata"].get("labels") or {}, {"metadata.name": node["metadata"]["name"]}
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False  # a term that says nothing selects nothing
    return all(match_expression(e, labels) for e in expressions) and all(match_expression(e, name) for e in fields)


def preferred_weight(spec, node):
    """Sum of the weights of preferred node affinity terms that the node meets."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    return sum(term.get("weight", 0) for term in terms if _term_matches(term["preference"], node))


def untolerated(pod, node):
    """The first NoSchedule or NoExecute taint in the way, or None."""
    for taint in (node.get("spec") or {}).get("taints") or []:
        if taint["effect"] != "PreferNoSchedule" and not tolerates(pod["spec"].get("tolerations"), taint):
            return taint
    return None


def avoided(pod, node):
    """How many PreferNoSchedule taints the pod does not tolerate."""
    taints = (node.get("spec") or {}).get("taints") or []
    return sum(t["effect"] == "PreferNoSchedule" and not tolerates(pod["spec"].get("tolerations"), t) for t in taints)


def free_resources(node, pods):
    """{resource: amount} of the node's allocatable that its pods do not ask for."""
    free = {name: quantity(text) for name, text in ((node.get("status") or {}).get("allocatable") or {}).items()}
    running = [p for p in pods if not is_finished(p)]
    free["pods"] = free.get("pods", 110) - len(running)
    for pod in running:
        for name, amount in requests_of(pod).items():
            free[name] = free.get(name, 0) - amount
    return free


def lacking(requests, free):
    """The scheduler's words for what the node has too little of; requests as requests_of gives them."""
    crowded = ["Too many pods"] if free.get("pods", 1) < 1 else []
    return crowded + [f"Insufficient {name}" for name, amount in requests.items() if amount > free.get(name, 0)]


def why_not(pod, node, requests, free):
    """The scheduler's words against one node ([] when the pod fits), in the order of its filters (1.36)."""
    spec = pod["spec"]
    if (node.get("spec") or {}).get("unschedulable") and not tolerates(spec.get("tolerations"), UNSCHEDULABLE):
        return ["node(s) were unschedulable"]
    if untolerated(pod, node) or not condition(node, "Ready"):  # a node that is not Ready is about to get its taint
        return ["node(s) had untolerated taint(s)"]
    if not fits_selectors(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return lacking(requests, free)
