# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on each pod of a node: will a drain get it away, and what stands in the way. Pure.

skip (stays) · free (no budget in the way) · now (fits its budget) · serial (shares its budget with more pods of this node
than it allows at once) · blocked_now (budget exhausted) · unknown (cannot be said) · blocked_by_spec (needs a decision or
can never be allowed as things are) · misconfigured (somebody must mend a budget). A node's verdict is its worst pod's.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import budgets, pods

# From good to bad. What cannot be said is worse than what will pass, and better than what is certain to stand still.
SEVERITY = ("skip", "free", "now", "serial", "blocked_now", "unknown", "blocked_by_spec", "misconfigured")
PASSABLE = ("skip", "free", "now", "serial")
# A pod this long past its grace is held by something the API does not show.
STUCK_AFTER_S = 60


class Assessment(NamedTuple):
    """One pod, judged.

    verdict: see above. way: what the drain does about it: leave (skip), wait (it is leaving), at_once, budget (as its
    budget allows), ask (try and see: its budgets cannot be read), hold_off (blocked: wait for a change), decide (needs an
    option). blocked_by: "pdb ns/name", "option x", "finalizer y". sentence and remedy: for people; remedy "" when none is
    needed. budget: Standing of the budget it needs room in, or None.
    """

    pod: dict
    verdict: str
    way: str
    sentence: str
    remedy: str = ""
    blocked_by: tuple = ()
    budget: Optional[budgets.Standing] = None

    @property
    def uid(self):
        return self.pod["metadata"]["uid"]


def assess(found, pdbs, daemonsets, options, now):
    """Assessments of the pods of one node, by namespace and name.

    pdbs: PodDisruptionBudgets, or None when they may not be read. daemonsets: set of (namespace, name), or None.
    options: {"delete_emptydir_data": bool, "evict_unmanaged": bool}. now: aware datetime of the API server.
    """
    ordered = sorted(found, key=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"]))
    single = [_assess_pod(pod, pdbs, daemonsets, options, now) for pod in ordered]
    sharing = {}
    for one in single:
        if one.way == "budget":
            sharing[one.budget.uid] = sharing.get(one.budget.uid, 0) + 1
    return [_with_sharing(one, sharing) for one in single]


def worst(verdicts):
    """A node's verdict; a node with nothing to evict is free."""
    return max([*verdicts, "free"], key=SEVERITY.index)


def estimate_s(assessments, grace_period_s=None):
    """Upper bound of the drain in seconds, None while something blocks it.

    Longest grace times the rounds of the tightest budget; the start of replacements between two rounds is not in it.
    """
    if any(one.verdict not in PASSABLE for one in assessments):
        return None
    longest, shared = 0, {}
    for one in assessments:
        if one.way in ("leave", "wait"):
            continue
        grace = pods.grace_s(one.pod, grace_period_s)
        longest = max(longest, grace)
        if one.budget:
            group = shared.setdefault(one.budget.uid, [one.budget.allowed, 0, 0])
            group[1], group[2] = group[1] + 1, max(group[2], grace)
    return max([longest, *(math.ceil(count / allowed) * grace for allowed, count, grace in shared.values())])


def _with_sharing(one, sharing):
    if one.way != "budget" or sharing[one.budget.uid] <= one.budget.allowed:
        return one
    count = sharing[one.budget.uid]
    text = f"shares budget {one.budget.name} with {count - 1} more pods here ({one.budget.allowed} allowed at a time)"
    return one._replace(verdict="serial", sentence=text)


def _assess_pod(pod, pdbs, daemonsets, options, now):
    treatment = pods.treatment(pod, daemonsets, **options)
    if treatment.action == "skip":
        return Assessment(pod, "skip", "leave", treatment.reason)
    if treatment.action == "wait":
        return _terminating(pod, now)
    if treatment.action == "refuse":
        names = " and ".join(f"{option}=true" for option in treatment.options)
        blocked_by = tuple(f"option {option}" for option in treatment.options)
        return Assessment(
            pod, "blocked_by_spec", "decide", treatment.reason, f"set {names} to evict it all the same", blocked_by
        )
    if pdbs is None:
        return Assessment(
            pod, "unknown", "ask", "its budgets may not be read", "get permission to list poddisruptionbudgets"
        )
    return _under_budgets(pod, pdbs)


def _terminating(pod, now):
    overdue = pods.overdue_s(pod, now)
    finalizers = tuple(pod["metadata"].get("finalizers") or ())
    blocked_by = tuple(f"finalizer {name}" for name in finalizers)
    held = f", held by finalizers {', '.join(finalizers)}" if finalizers else ""
    if overdue < STUCK_AFTER_S:
        text = f"is terminating, {max(0, -round(overdue))} s of grace left{held}"
        return Assessment(pod, "free", "wait", text, "", blocked_by)
    text = f"is terminating, {round(overdue)} s past its grace{held}"
    remedy = "see to whatever owns these finalizers" if finalizers else "look at its kubelet, volumes and containers"
    return Assessment(pod, "unknown", "wait", text, remedy, blocked_by)


def _under_budgets(pod, pdbs):
    try:
        covering = budgets.covering(pod, pdbs)
    except budgets.UnknownSelector as error:
        return Assessment(pod, "unknown", "ask", f"a budget of its namespace uses a {error}", "update gpuops.lifecycle")
    if not covering:
        return Assessment(pod, "free", "at_once", "no budget covers it" + _comes_back(pod))
    if pod["status"].get("phase") == "Pending":
        return Assessment(pod, "free", "at_once", "is pending, so budgets do not count for it" + _comes_back(pod))
    standings = [budgets.standing(pdb) for pdb in covering]
    blocked_by = tuple(f"pdb {one.label}" for one in standings)
    if len(standings) > 1:
        names = " and ".join(one.name for one in standings)
        return Assessment(
            pod,
            "misconfigured",
            "hold_off",
            f"is covered by two budgets, {names}: the API evicts no such pod",
            "leave it one of them",
            blocked_by,
        )
    return _under_budget(pod, covering[0], standings[0], blocked_by)


def _under_budget(pod, pdb, standing, blocked_by):
    spends = budgets.spends(pod, pdb)
    if spends is None:
        policy = pdb["spec"]["unhealthyPodEvictionPolicy"]
        return Assessment(
            pod,
            "unknown",
            "ask",
            f"is not ready, and budget {standing.name} has the unknown unhealthyPodEvictionPolicy {policy}",
            "update gpuops.lifecycle",
            blocked_by,
        )
    if not spends:
        return Assessment(
            pod, "free", "at_once", f"is not ready, so budget {standing.name} lets it go" + _comes_back(pod)
        )
    if standing.state == "open":
        return Assessment(
            pod,
            "now",
            "budget",
            f"fits budget {standing.name} ({standing.allowed} allowed)" + _comes_back(pod),
            budget=standing,
        )
    verdict, remedy = _BLOCKED[standing.state]
    text = f"budget {standing.name} allows no disruption: {standing.why}"
    if not pods.is_ready(pod):
        text += "; the pod is itself one that is not ready"
        remedy += ", or set unhealthyPodEvictionPolicy: AlwaysAllow on the budget"
    return Assessment(
        pod,
        verdict,
        "hold_off",
        text,
        remedy.format(namespace=standing.namespace, name=standing.name),
        blocked_by,
        standing,
    )


# state of a budget -> (verdict, remedy)
_BLOCKED = {
    "exhausted": (
        "blocked_now",
        "wait until its other pods are Ready again (kubectl -n {namespace} describe pdb {name})",
    ),
    "never": ("blocked_by_spec", "add a replica, or loosen budget {namespace}/{name}"),
    "stale": ("unknown", "ask again in some seconds"),
    "broken": ("misconfigured", "mend budget {namespace}/{name} (kubectl -n {namespace} describe pdb {name})"),
}


def _comes_back(pod):
    return "; it tolerates a cordon, so its successor may land here again" if pods.tolerates_cordon(pod) else ""
