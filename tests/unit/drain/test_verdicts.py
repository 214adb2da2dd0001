# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdict per pod and node, with its sentence and remedy."""

from __future__ import annotations

import datetime

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import verdicts
from tests.unit.drain.shapes import pdb, pod

NOW = datetime.datetime(2026, 12, 1, 12, 0, 0, tzinfo=datetime.timezone.utc)
OPTIONS = {"delete_emptydir_data": False, "evict_unmanaged": False}
SYNC_FAILED = [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}]
STUCK = {"deleted": "2026-12-01T11:50:00Z", "finalizers": ["example.com/volume"]}


def assess(found, pdbs, **options):
    return verdicts.assess(found, pdbs, set(), {**OPTIONS, **options}, NOW)


# (case, pod, budgets, verdict, way, words of sentence, words of remedy, blocked_by)
CASES = [
    ("skip", pod(phase="Succeeded"), [], "skip", "leave", "finished", "", ()),
    ("free", pod(), [], "free", "at_once", "no budget", "", ()),
    ("budget of others", pod(labels={"app": "api"}), [pdb()], "free", "at_once", "no budget", "", ()),
    ("now", pod(), [pdb(allowed=1)], "now", "budget", "fits budget web (1 allowed)", "", ()),
    (
        "T40 pending under a full budget",
        pod(phase="Pending", ready=False),
        [pdb(allowed=0)],
        "free",
        "at_once",
        "pending",
        "",
        (),
    ),
    (
        "T4 blocked now",
        pod(),
        [pdb(allowed=0, needs=2, has=2, expected=3)],
        "blocked_now",
        "hold_off",
        "needs 2 healthy, has 2 of 3",
        "wait until",
        ("pdb shop/web",),
    ),
    (
        "T1 by spec",
        pod(),
        [pdb(allowed=0, needs=1, has=1, expected=1)],
        "blocked_by_spec",
        "hold_off",
        "at 1 replicas",
        "add a replica, or loosen budget shop/web",
        ("pdb shop/web",),
    ),
    (
        "T6 two budgets",
        pod(),
        [pdb("a"), pdb("b")],
        "misconfigured",
        "hold_off",
        "two budgets, a and b",
        "leave it one",
        ("pdb shop/a", "pdb shop/b"),
    ),
    (
        "T9 SyncFailed",
        pod(),
        [pdb(allowed=0, conditions=SYNC_FAILED)],
        "misconfigured",
        "hold_off",
        "no scale",
        "mend budget shop/web",
        ("pdb shop/web",),
    ),
    (
        "T12 stale",
        pod(),
        [pdb(generation=2, observed=1)],
        "unknown",
        "hold_off",
        "newest version",
        "ask again",
        ("pdb shop/web",),
    ),
    (
        "T7 unready and blocking itself",
        pod(ready=False),
        [pdb(allowed=0, needs=1, has=0, expected=1)],
        "blocked_by_spec",
        "hold_off",
        "itself one that is not ready",
        "AlwaysAllow",
        ("pdb shop/web",),
    ),
    (
        "T7 unready under a healthy budget",
        pod(ready=False),
        [pdb(allowed=0, needs=1, has=1, expected=2)],
        "free",
        "at_once",
        "not ready",
        "",
        (),
    ),
    (
        "unknown policy",
        pod(ready=False),
        [pdb(policy="Sometimes")],
        "unknown",
        "ask",
        "Sometimes",
        "update",
        ("pdb shop/web",),
    ),
    (
        "unknown selector",
        pod(),
        [pdb(selector={"matchExpressions": [{"key": "a", "operator": "Gt"}]})],
        "unknown",
        "ask",
        "operator Gt",
        "update",
        (),
    ),
    ("budgets not readable", pod(), None, "unknown", "ask", "may not be read", "permission", ()),
    (
        "naked",
        pod(owner=None),
        [],
        "blocked_by_spec",
        "decide",
        "nothing manages it",
        "evict_unmanaged=true",
        ("option evict_unmanaged",),
    ),
    ("leaving", pod(deleted="2026-12-01T12:00:20Z"), [pdb(allowed=0)], "free", "wait", "20 s of grace left", "", ()),
    (
        "T30 stuck on a finalizer",
        pod(**STUCK),
        [],
        "unknown",
        "wait",
        "600 s past its grace, held by finalizers example.com/volume",
        "finalizers",
        ("finalizer example.com/volume",),
    ),
    (
        "T38 would come back",
        pod(tolerations=[{"operator": "Exists"}]),
        [],
        "free",
        "at_once",
        "may land here again",
        "",
        (),
    ),
]


@pytest.mark.parametrize(
    ("subject", "pdbs", "verdict", "way", "words", "remedy", "blocked_by"),
    [c[1:] for c in CASES],
    ids=[c[0] for c in CASES],
)
def test_verdict(subject, pdbs, verdict, way, words, remedy, blocked_by):
    (found,) = assess([subject], pdbs)
    assert (found.verdict, found.way, found.blocked_by) == (verdict, way, blocked_by)
    assert words in found.sentence
    assert remedy in found.remedy
    assert bool(found.remedy) == bool(remedy)


@pytest.mark.parametrize(
    ("allowed", "expected"), [(1, ["serial"] * 3), (2, ["serial"] * 3), (3, ["now"] * 3), (4, ["now"] * 3)]
)
def test_pods_of_one_node_that_share_a_budget(allowed, expected):
    found = assess([pod(f"web-{n}") for n in range(3)], [pdb(allowed=allowed, expected=9)])
    assert [one.verdict for one in found] == expected


def test_pods_that_need_no_room_do_not_count_against_the_shared_budget():
    sick = pod("web-2", ready=False)
    found = assess([pod("web-1"), sick, pod("web-3", deleted="2026-12-01T12:00:20Z")], [pdb(allowed=1)])
    assert [one.verdict for one in found] == ["now", "free", "free"]


def test_the_sentence_of_a_shared_budget_has_the_numbers():
    found = assess([pod("web-1"), pod("web-2")], [pdb(allowed=1)])
    assert found[0].sentence == "shares budget web with 1 more pods here (1 allowed at a time)"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], "free"),
        (["skip"], "free"),
        (["free", "serial", "now"], "serial"),
        (["unknown", "blocked_now"], "unknown"),
        (["unknown", "blocked_by_spec"], "blocked_by_spec"),
        (["blocked_by_spec", "misconfigured", "free"], "misconfigured"),
    ],
)
def test_node_verdict_is_the_worst(found, expected):
    assert verdicts.worst(found) == expected


@pytest.mark.parametrize(
    ("found", "pdbs", "grace", "seconds"),
    [
        ([], [], None, 0),
        ([pod(grace=600), pod("b", grace=10)], [], None, 600),
        ([pod(grace=600, phase="Succeeded")], [], None, 0),
        ([pod(f"web-{n}", grace=20) for n in range(5)], [pdb(allowed=2, expected=9)], None, 60),
        ([pod(f"web-{n}", grace=20) for n in range(5)], [pdb(allowed=2, expected=9)], 4, 12),
        (
            [pod(grace=600, labels={}), *(pod(f"web-{n}", grace=20) for n in range(5))],
            [pdb(allowed=1, expected=9)],
            None,
            600,
        ),
        ([pod()], [pdb(allowed=0)], None, None),
        ([pod(owner=None)], [], None, None),
    ],
)
def test_estimate(found, pdbs, grace, seconds):
    assert verdicts.estimate_s(assess(found, pdbs), grace) == seconds
