# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a drain says while it waits, and how often."""

from __future__ import annotations

import datetime

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import progress, verdicts
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.refusals import Refusal
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.rounds import Tries
from tests.unit.drain.shapes import pdb, pod

NOW = datetime.datetime(2026, 12, 1, 12, 0, 0, tzinfo=datetime.timezone.utc)
WEBHOOK = Refusal("webhook", "denied", webhook="w.example")
EVERYTHING = [{"operator": "Exists"}]


def assess(subject, *pdbs):
    options = {"delete_emptydir_data": False, "evict_unmanaged": False}
    return verdicts.assess([subject], pdbs, set(), options, NOW)[0]


CASES = [
    ("blocked", assess(pod(), pdb(allowed=0, needs=2, has=2, expected=3)), Tries(), 0, "needs 2 healthy, has 2 of 3"),
    ("in flight", assess(pod()), Tries(count=1, in_flight=True), 0, "is being evicted"),
    ("accepted, then nothing", assess(pod()), Tries(count=1, accepted=True), 0, "does not begin to terminate"),
    ("webhook", assess(pod()), Tries(count=1, refusal=WEBHOOK), 0, "refused (webhook): denied"),
    ("leaving", assess(pod(deleted="2026-12-01T12:00:20Z")), Tries(accepted=True), 0, "20 s of grace left"),
    ("comes back by toleration", assess(pod(tolerations=EVERYTHING)), Tries(), 2, "2 times: it tolerates the cordon"),
    ("comes back by name", assess(pod()), Tries(), 3, "3 times: its controller names this node"),
]


@pytest.mark.parametrize(("one", "tries", "returns", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_reason(one, tries, returns, words):
    assert words in progress.sentence(one, tries, returns)


def test_webhook_is_among_what_blocks():
    blocked = assess(pod(), pdb(allowed=0))
    assert progress.blocked_by(blocked, Tries(refusal=WEBHOOK)) == ["pdb shop/web", "webhook w.example"]


def test_a_line_names_four_pods_and_counts_the_rest_and_begins_with_the_blocked():
    free = [(assess(pod(f"a-{n}", labels={})), Tries(in_flight=True), 0) for n in range(5)]
    blocked = (assess(pod("z"), pdb(allowed=0)), Tries(), 0)
    line = progress.line([*free, blocked], 12.4)
    assert line.startswith("waits for 6 pods (12 s): shop/z: budget web")
    assert line.endswith("; and 2 more")


def test_how_often():
    said = []
    reporter = progress.Reporter(lambda text: said.append(now))
    free, closed = assess(pod()), assess(pod(), pdb(allowed=0))
    times = [n / 2 for n in range(200)]
    for now in times:
        reporter.report([(closed if now >= 0.5 else free, Tries(), 0)], now)
    assert said == [0, 1, 6, 16, 36, 66, 96]


def test_nothing_to_wait_for_is_nothing_to_say():
    said = []
    progress.Reporter(said.append).report([], 10)
    assert said == []
