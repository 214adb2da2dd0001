# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Spreading and affinity between pods: the cluster is counted once for a pod, then each node is judged by the counts."""

from __future__ import annotations

import collections

from simulator.objects import is_finished, is_terminating
from simulator.scheduling import fits_selectors
from simulator.selectors import by_object

SPREAD = "node(s) didn't match pod topology spread constraints"
NO_KEY = f"{SPREAD} (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def required_terms(pod, kind):
    """kind: podAffinity or podAntiAffinity."""
    return ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or []


class Spreading:
    """Counts for one pod. pods_on(node name): pods there. repellers: pods with required anti-affinity, bound to nodes."""

    def __init__(self, pod, nodes, pods_on, repellers=()):
        self._pod, self._pods_on = pod, pods_on
        self._by_name = {node["metadata"]["name"]: node for node in nodes}
        self._hard, self._soft = [], []
        for rule in pod["spec"].get("topologySpreadConstraints") or []:
            counts = self._count(rule["topologyKey"], self._matcher(rule, pod), only_fitting=True)
            into = self._hard if rule.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" else self._soft
            into.append((rule["topologyKey"], rule.get("maxSkew", 1), counts))
        self._near = [self._term(term) for term in required_terms(pod, "podAffinity")]
        self._far = [self._term(term) for term in required_terms(pod, "podAntiAffinity")]
        self._repelled = self._repelled_by(repellers)

    def _matcher(self, rule, pod):
        """Pods that the rule is about: of the pod's namespace, neither ended nor ending."""
        match, labels = by_object(rule.get("labelSelector")), pod["metadata"].get("labels") or {}
        keys = rule.get("matchLabelKeys") or []
        same = {k: labels[k] for k in keys if k in labels}
        namespaces = rule.get("namespaces") or [pod["metadata"].get("namespace")]

        def matches(other):
            if other["metadata"].get("namespace") not in namespaces or not match(other):
                return False
            theirs = other["metadata"].get("labels") or {}
            return (
                all(theirs.get(k) == v for k, v in same.items())
                and not is_terminating(other)
                and not is_finished(other)
            )

        return matches

    def _count(self, key, matches, only_fitting=False):
        counts = collections.Counter()
        for name, node in self._by_name.items():
            domain = (node["metadata"].get("labels") or {}).get(key)
            if domain is None or only_fitting and not fits_selectors(self._pod["spec"], node):
                continue
            counts[domain] += sum(matches(p) for p in self._pods_on(name))
        return counts

    def _term(self, term):
        matches = self._matcher(term, self._pod)
        return term["topologyKey"], self._count(term["topologyKey"], matches), matches(self._pod)

    def _repelled_by(self, repellers):
        """{(topology key, domain)} that pods already there keep this pod out of."""
        found = set()
        for other in repellers:
            node = self._by_name.get(other["spec"].get("nodeName"))
            if node is None or is_finished(other):
                continue
            for term in required_terms(other, "podAntiAffinity"):
                if self._matcher(term, other)(self._pod):
                    domain = (node["metadata"].get("labels") or {}).get(term["topologyKey"])
                    found.add((term["topologyKey"], domain))
        return found

    def why_not(self, node):
        """ "" when these rules allow the node, else the scheduler's words."""
        labels = node["metadata"].get("labels") or {}
        for key, skew, counts in self._hard:
            if key not in labels:
                return NO_KEY
            if counts[labels[key]] + 1 - min(counts.values(), default=0) > skew:
                return SPREAD
        for key, counts, itself in self._near:
            first_of_its_kind = itself and not any(counts.values())
            if key not in labels or not counts[labels[key]] and not first_of_its_kind:
                return AFFINITY
        if any(key in labels and counts[labels[key]] for key, counts, _itself in self._far):
            return ANTI_AFFINITY
        if any(labels.get(key) == domain for key, domain in self._repelled if key in labels):
            return EXISTING
        return ""

    def crowding(self, node):
        """How much the soft constraints speak against the node."""
        labels = node["metadata"].get("labels") or {}
        return sum(counts[labels[key]] if key in labels else 10**6 for key, _skew, counts in self._soft)
