# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Budgets read as the eviction API reads them."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import budgets
from tests.unit.drain.shapes import pdb, pod


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


LEGACY = expression("pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "Exists")
SELECTORS = [
    ("absent selects none", None, {"app": "web"}, False),
    ("empty selects all", {}, {}, True),
    ("v1beta1's empty, shown through v1, selects none", LEGACY, {"app": "web"}, False),
    ("label", {"matchLabels": {"app": "web"}}, {"app": "web", "tier": "1"}, True),
    ("other value", {"matchLabels": {"app": "web"}}, {"app": "api"}, False),
    ("missing label", {"matchLabels": {"app": "web"}}, {}, False),
    ("In", expression("app", "In", "web", "api"), {"app": "api"}, True),
    ("not In", expression("app", "In", "web"), {"app": "api"}, False),
    ("In without the label", expression("app", "In", "web"), {}, False),
    ("NotIn", expression("app", "NotIn", "web"), {"app": "api"}, True),
    ("NotIn without the label", expression("app", "NotIn", "web"), {}, True),
    ("NotIn refused", expression("app", "NotIn", "web"), {"app": "web"}, False),
    ("Exists", expression("app", "Exists"), {"app": ""}, True),
    ("DoesNotExist", expression("app", "DoesNotExist"), {"tier": "1"}, True),
    ("DoesNotExist refused", expression("app", "DoesNotExist"), {"app": "x"}, False),
    ("both parts must match", {"matchLabels": {"app": "web"}, **expression("tier", "Exists")}, {"app": "web"}, False),
]


@pytest.mark.parametrize(("selector", "labels", "expected"), [c[1:] for c in SELECTORS], ids=[c[0] for c in SELECTORS])
def test_selector(selector, labels, expected):
    assert budgets.matches(selector, labels) is expected


def test_unknown_operator_is_not_guessed():
    with pytest.raises(budgets.UnknownSelector, match="Gt"):
        budgets.matches(expression("app", "Gt", "1"), {"app": "2"})


def test_covering_stays_in_the_namespace():
    here, there = pdb("b"), pdb("a", namespace="other")
    assert budgets.covering(pod(), [there, here, pdb("a")]) == [pdb("a"), here]


SYNC_FAILED = [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale for Foo"}]
# (case, budget, state, in the sentence)
STANDINGS = [
    ("room", pdb(allowed=2), "open", "2 allowed"),
    ("T4 not now", pdb(allowed=0, needs=2, has=2, expected=3), "exhausted", "needs 2 healthy, has 2 of 3"),
    ("T1 one replica, minAvailable 1", pdb(allowed=0, needs=1, has=1, expected=1), "never", "at 1 replicas"),
    (
        "T2 maxUnavailable 0",
        pdb(allowed=0, needs=3, has=3, expected=3, spec={"maxUnavailable": 0}),
        "never",
        "any number",
    ),
    (
        "T2 maxUnavailable 0%",
        pdb(allowed=0, needs=2, has=3, expected=3, spec={"maxUnavailable": "0%"}),
        "never",
        "any number",
    ),
    (
        "T2 minAvailable 100%",
        pdb(allowed=0, needs=3, has=3, expected=3, spec={"minAvailable": "100%"}),
        "never",
        "any number",
    ),
    (
        "T3 80 % of one",
        pdb(allowed=0, needs=1, has=1, expected=1, spec={"minAvailable": "80%"}),
        "never",
        "at 1 replicas",
    ),
    ("T9 SyncFailed", pdb(allowed=0, needs=0, has=0, expected=0, conditions=SYNC_FAILED), "broken", "no scale for Foo"),
    ("T10 all zeros", pdb(allowed=0, needs=0, has=0, expected=0), "broken", "cannot know"),
    ("T12 stale, although it shows room", pdb(allowed=3, generation=2, observed=1), "stale", "newest version"),
    ("no status yet", {**pdb(), "status": {}}, "stale", "newest version"),
    ("negative", pdb(allowed=-1), "broken", "out of order"),
    ("2001 evicted pods not seen to go", pdb(allowed=1, disrupted={str(n): "" for n in range(2001)}), "broken", "2001"),
]


@pytest.mark.parametrize(("budget", "state", "words"), [c[1:] for c in STANDINGS], ids=[c[0] for c in STANDINGS])
def test_standing(budget, state, words):
    found = budgets.standing(budget)
    assert found.state == state
    assert words in found.why


HEALTHY = {"needs": 1, "has": 2}
SICK = {"needs": 2, "has": 1}
SPENDING = [
    ("ready", pod(), pdb(), True),
    ("pending", pod(phase="Pending", ready=False), pdb(**SICK), False),
    ("terminating", pod(deleted="2026-12-01T12:00:00Z"), pdb(), False),
    ("T7 unready, budget healthy", pod(ready=False), pdb(**HEALTHY), False),
    ("T7 unready, budget not healthy", pod(ready=False), pdb(**SICK), True),
    ("T7 unready, nothing desired", pod(ready=False), pdb(needs=0, has=1), True),
    ("T7 unready, AlwaysAllow", pod(ready=False), pdb(policy="AlwaysAllow", **SICK), False),
    ("ready, AlwaysAllow", pod(), pdb(policy="AlwaysAllow"), True),
    ("unready, explicit default", pod(ready=False), pdb(policy="IfHealthyBudget", **HEALTHY), False),
    ("unready, a policy of the future", pod(ready=False), pdb(policy="Sometimes", **HEALTHY), None),
]


@pytest.mark.parametrize(("subject", "budget", "expected"), [c[1:] for c in SPENDING], ids=[c[0] for c in SPENDING])
def test_spends(subject, budget, expected):
    assert budgets.spends(subject, budget) is expected
