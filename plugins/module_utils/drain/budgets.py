# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disruption budgets as the eviction API reads them (kubernetes/kubernetes pkg/registry/core/pod/storage/eviction.go). Pure.

What is allowed is taken from the status alone; the spec only tells "not now" from "never at this number of replicas".
A budget is an observation, not a reservation (kubernetes/kubernetes#105326): the API's answer to an eviction stays the
only truth.
"""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import pods

# An eviction is answered with 403 once so many evicted pods have not been seen to go.
MAX_DISRUPTED = 2000


class UnknownSelector(ValueError):
    """A selector operator this code does not know: what it matches cannot be said."""


class Standing(NamedTuple):
    """Where a budget stands.

    state: open (allowed > 0), exhausted (not now), never (cannot allow one at this number of replicas), stale (its
    controller has not seen its newest version), broken (cannot be computed). why: the numbers, for a sentence.
    version: changes with every new status. disrupted: names of pods evicted and not yet seen to go.
    """

    namespace: str
    name: str
    uid: str
    version: str
    state: str
    allowed: int
    needs: int
    has: int
    expected: int
    why: str
    disrupted: frozenset

    @property
    def label(self):
        return f"{self.namespace}/{self.name}"


def matches(selector, labels):
    """Whether a LabelSelector of policy/v1 selects these labels: `{}` selects all, an absent one none.

    The empty selector of policy/v1beta1, which selected none, is shown through v1 as Exists on a label that no pod has
    (kubernetes/kubernetes#95083), so it needs no rule of its own.
    """
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_matches_expression(expression, labels) for expression in selector.get("matchExpressions") or [])


def _matches_expression(expression, labels):
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    raise UnknownSelector(f"selector operator {operator}")


def covering(pod, pdbs):
    """The PodDisruptionBudgets that select the pod, by name."""
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    found = [
        pdb
        for pdb in pdbs
        if pdb["metadata"]["namespace"] == namespace and matches(pdb["spec"].get("selector"), labels)
    ]
    return sorted(found, key=lambda pdb: pdb["metadata"]["name"])


def standing(pdb):
    """Standing of a PodDisruptionBudget."""
    metadata, status = pdb["metadata"], pdb.get("status") or {}
    allowed, needs = status.get("disruptionsAllowed") or 0, status.get("desiredHealthy") or 0
    has, expected = status.get("currentHealthy") or 0, status.get("expectedPods") or 0
    disrupted = frozenset(status.get("disruptedPods") or {})
    state, why = _state(pdb, allowed, needs, has, expected, disrupted)
    return Standing(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata["resourceVersion"],
        state,
        allowed,
        needs,
        has,
        expected,
        why,
        disrupted,
    )


def _state(pdb, allowed, needs, has, expected, disrupted):
    metadata, status = pdb["metadata"], pdb.get("status") or {}
    if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0):
        return "stale", "its controller has not looked at its newest version yet"
    failed = next((c for c in status.get("conditions") or [] if c.get("reason") == "SyncFailed"), None)
    if failed:
        return "broken", f"its controller cannot compute it: {failed.get('message') or 'SyncFailed'}"
    if allowed < 0 or len(disrupted) > MAX_DISRUPTED:
        return "broken", f"its status is out of order ({allowed} allowed, {len(disrupted)} evicted pods not seen to go)"
    numbers = f"needs {needs} healthy, has {has} of {expected}"
    if allowed > 0:
        return "open", f"{allowed} allowed"
    if expected == 0:
        return "broken", "it selects pods whose number its controller cannot know"
    if never_by_spec(pdb.get("spec") or {}):
        return "never", f"its spec allows no disruption at any number of replicas ({numbers})"
    if needs >= expected:
        return "never", f"at {expected} replicas it can never allow one ({numbers})"
    return "exhausted", numbers


def never_by_spec(spec):
    """maxUnavailable 0 or 0 %, minAvailable 100 %: nothing can ever be evicted, whatever the number of replicas."""
    return spec.get("maxUnavailable") in (0, "0", "0%") or spec.get("minAvailable") == "100%"


def spends(pod, pdb):
    """Whether evicting the pod needs room in the budget: True, False, or None when that cannot be said.

    Pods that serve nothing are let go without it: pending and finished ones always, unready ones by the budget's
    unhealthyPodEvictionPolicy (KEP-3017). An unknown policy means that the pod is not to be evicted.
    """
    if (pod.get("status") or {}).get("phase") in ("Pending", "Succeeded", "Failed") or pods.is_terminating(pod):
        return False
    if pods.is_ready(pod):
        return True
    policy = (pdb.get("spec") or {}).get("unhealthyPodEvictionPolicy") or "IfHealthyBudget"
    if policy == "AlwaysAllow":
        return False
    if policy == "IfHealthyBudget":
        status = pdb.get("status") or {}
        needs = status.get("desiredHealthy") or 0
        return not (needs > 0 and (status.get("currentHealthy") or 0) >= needs)
    return None
