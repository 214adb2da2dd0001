# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a pod may go: selectors, taints, resources, spreading. Pure; the scheduler and the DaemonSet controller use it."""

from __future__ import annotations

import collections

from simulator.objects import condition, is_finished, is_terminating, quantity, requests_of, tolerates
from simulator.selectors import by_object, match_expression


def fits_selectors(spec, node):
    """nodeName, nodeSelector and required node affinity (labels, and matchFields on metadata.name)."""
    labels, name = node["metadata"].get("labels") or {}, node["metadata"]["name"]
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(
        all(match_expression(e, labels) for e in term.get("matchExpressions") or [])
        and all(match_expression(e, {"metadata.name": name}) for e in term.get("matchFields") or [])
        for term in required.get("nodeSelectorTerms") or []
    )


def untolerated(pod, node):
    """The first NoSchedule or NoExecute taint in the way, or None."""
    for taint in (node.get("spec") or {}).get("taints") or []:
        if taint["effect"] != "PreferNoSchedule" and not tolerates(pod["spec"].get("tolerations"), taint):
            return taint
    return None


def free_resources(node, pods):
    """{resource: amount} of the node's allocatable that its pods do not ask for."""
    free = {name: quantity(text) for name, text in ((node.get("status") or {}).get("allocatable") or {}).items()}
    running = [p for p in pods if not is_finished(p)]
    free["pods"] = free.get("pods", 110) - len(running)
    for pod in running:
        for name, amount in requests_of(pod).items():
            free[name] = free.get(name, 0) - amount
    return free


def lacking(pod, free):
    """Names of resources of which the node has too little for the pod."""
    short = [name for name, amount in requests_of(pod).items() if amount > free.get(name, 0)]
    return short + (["pods"] if free.get("pods", 1) < 1 else [])


def spread_allows(pod, node, nodes, pods_by_node):
    """topologySpreadConstraints with DoNotSchedule, over the nodes the pod's selectors fit."""
    for rule in pod["spec"].get("topologySpreadConstraints") or []:
        if rule.get("whenUnsatisfiable") != "DoNotSchedule":
            continue
        key, match = rule["topologyKey"], by_object(rule.get("labelSelector"))
        domain = (node["metadata"].get("labels") or {}).get(key)
        if domain is None:
            return False
        counts = collections.Counter()
        for other in nodes:
            where = (other["metadata"].get("labels") or {}).get(key)
            if where is None or not fits_selectors(pod["spec"], other):
                continue
            counts[where] += sum(_counts(p, pod, match) for p in pods_by_node(other["metadata"]["name"]))
        if counts[domain] + 1 - min(counts.values(), default=0) > rule.get("maxSkew", 1):
            return False
    return True


def anti_affinity_allows(pod, node, nodes, pods_by_node):
    terms = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or []:
        match = by_object(term.get("labelSelector"))
        key = term["topologyKey"]
        domain = (node["metadata"].get("labels") or {}).get(key)
        for other in nodes:
            if (other["metadata"].get("labels") or {}).get(key) == domain and any(
                _counts(p, pod, match) for p in pods_by_node(other["metadata"]["name"])
            ):
                return False
    return True


def _counts(other, pod, match):
    same = other["metadata"].get("namespace") == pod["metadata"].get("namespace")
    return same and not is_terminating(other) and not is_finished(other) and match(other)


def why_not(pod, node, nodes, pods_by_node):
    """ "" when the pod may be placed on the node, else the scheduler's words for one node."""
    if (node.get("spec") or {}).get("unschedulable") and not tolerates(
        pod["spec"].get("tolerations"), {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    ):
        return "node(s) were unschedulable"
    if not condition(node, "Ready"):
        return "node(s) had untolerated taint(s)"
    if not fits_selectors(pod["spec"], node):
        return "node(s) didn't match Pod's node affinity/selector"
    taint = untolerated(pod, node)
    if taint:
        return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    short = lacking(pod, free_resources(node, pods_by_node(node["metadata"]["name"])))
    if short:
        return f"Insufficient {short[0]}" if short[0] != "pods" else "Too many pods"
    if not spread_allows(pod, node, nodes, pods_by_node):
        return "node(s) didn't match pod topology spread constraints"
    if not anti_affinity_allows(pod, node, nodes, pods_by_node):
        return "node(s) didn't match pod anti-affinity rules"
    return ""
