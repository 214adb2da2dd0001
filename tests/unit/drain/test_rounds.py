# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who goes next: never more evictions than a budget's status allows, no clock where a change can be waited for."""

from __future__ import annotations

import datetime

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import rounds, verdicts
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.refusals import Refusal
from tests.unit.drain.shapes import pdb, pod

NOW = datetime.datetime(2026, 12, 1, 12, 0, 0, tzinfo=datetime.timezone.utc)
OPTIONS = {"delete_emptydir_data": False, "evict_unmanaged": False}
LEAVING = "2026-12-01T12:00:20Z"


class World:
    """Pods and one budget, and the drain's memory of them."""

    def __init__(self, count=4, **budget):
        self.pods = [pod(f"web-{n}") for n in range(count)]
        self.budgets = [pdb(expected=9, **budget)] if budget else []
        self.rounds = rounds.Rounds()

    def assessed(self):
        budgets = self.budgets if self.budgets is not None else None
        return verdicts.assess(self.pods, budgets, set(), OPTIONS, NOW)

    def due(self, now=0.0):
        """Names of the pods to evict now; each counts as sent."""
        present = {p["metadata"]["uid"]: p for p in self.pods}
        due = self.rounds.due(self.assessed(), present, now)
        for one in due:
            self.rounds.sent(one, now)
        return sorted(one.pod["metadata"]["name"] for one in due)

    def one(self, name):
        return next(one for one in self.assessed() if one.pod["metadata"]["name"] == name)

    def accept(self, name, now=0.0):
        self.rounds.accepted(self.one(name), now)

    def refuse(self, name, kind, now=0.0, wait=None):
        self.rounds.refused(self.one(name), Refusal(kind, "said no", wait), now)

    def leave(self, name):
        self.pods = [pod(name, deleted=LEAVING) if p["metadata"]["name"] == name else p for p in self.pods]

    def status(self, version, allowed, disrupted=()):
        self.budgets = [pdb(expected=9, allowed=allowed, version=version, disrupted=dict.fromkeys(disrupted, ""))]


def test_pods_without_budget_go_all_at_once_and_only_once():
    world = World(count=4)
    assert len(world.due()) == 4
    assert world.due(5.0) == []


def test_no_more_than_the_status_allows():
    world = World(count=4, allowed=2)
    assert len(world.due()) == 2
    assert world.due(0.1) == []


def test_a_status_that_does_not_show_an_eviction_yet_leaves_no_room_for_another():
    world = World(count=4, allowed=2)
    assert world.due() == ["web-0", "web-1"]
    world.accept("web-0")
    world.status("2", allowed=1, disrupted=["web-0"])
    assert world.due(0.1) == []


def test_an_eviction_that_the_status_shows_is_not_counted_twice():
    world = World(count=4, allowed=1)
    world.due()
    world.accept("web-0")
    world.status("2", allowed=1, disrupted=["web-0"])
    assert world.due(0.1) == ["web-1"]


def test_a_later_status_than_the_leaving_counts_the_pod_out_although_it_was_never_seen_disrupted():
    world = World(count=4, allowed=1)
    world.due()
    world.accept("web-0")
    world.leave("web-0")
    world.status("3", allowed=1)
    assert world.due(0.1) == []
    world.status("4", allowed=1)
    assert world.due(0.2) == ["web-1"]


def test_a_status_counts_the_pod_out_after_a_while_even_if_no_later_one_comes():
    world = World(count=4, allowed=2)
    world.due()
    for name in ("web-0", "web-1"):
        world.accept(name)
        world.leave(name)
    world.status("3", allowed=1)
    assert world.due(0.1) == []
    assert world.due(0.1 + rounds.SETTLED_S) == ["web-2"]


def test_a_status_without_room_counts_too_so_the_next_room_is_used_at_once():
    world = World(count=4, allowed=1)
    world.due()
    world.accept("web-0")
    world.status("2", allowed=0, disrupted=["web-0"])
    assert world.due(0.1) == []
    world.leave("web-0")
    world.status("4", allowed=1)
    assert world.due(0.2) == ["web-1"]


def test_an_eviction_in_flight_holds_its_room():
    world = World(count=4, allowed=1)
    world.due()
    world.leave("web-0")
    world.status("3", allowed=1)
    world.status("4", allowed=1)
    assert world.due(60.0) == []


def test_T14_a_refusal_in_spite_of_room_waits_for_another_status():
    world = World(count=2, allowed=1)
    assert world.due() == ["web-0"]
    world.refuse("web-0", "budget")
    assert world.due(1.0) == []
    world.status("2", allowed=1)
    assert world.due(1.1) == ["web-1"]


def test_T13_a_refusal_in_spite_of_room_is_tried_again_when_no_status_comes():
    world = World(count=1, allowed=1)
    world.due()
    world.refuse("web-0", "budget")
    assert world.due(rounds.UNSEEN_S) == ["web-0"]


def test_blocked_pods_wait_for_a_change_and_are_asked_for_now_and_then():
    world = World(count=3, allowed=0)
    assert world.due(0.0) == []
    assert world.due(29.9) == []
    assert world.due(30.0) == ["web-0"]
    world.refuse("web-0", "budget", 30.1)
    assert world.due(59.0) == []
    assert world.due(61.0) == ["web-1"]


def test_T12_a_stale_status_is_gone_by_when_it_changes():
    world = World(count=1, allowed=1)
    world.due()
    world.refuse("web-0", "transient", wait=10)
    assert world.due(9.0) == []
    assert world.due(10.0) == ["web-0"]


def test_T51_one_refused_pod_does_not_hold_up_the_others():
    world = World(count=3)
    assert len(world.due()) == 3
    world.refuse("web-0", "transient")
    world.accept("web-1")
    assert world.due(0.4) == []
    assert world.due(0.5) == ["web-0"]


@pytest.mark.parametrize(
    ("tries", "kind", "wait", "pause"),
    [
        (1, "transient", None, 0.5),
        (3, "transient", None, 2),
        (9, "webhook", None, 10),
        (1, "throttle", 7, 7),
        (1, "misconfigured", None, 30),
        (1, "gone", None, 0.5),
    ],
)
def test_pauses(tries, kind, wait, pause):
    world, now = World(count=1), 0.0
    for _n in range(tries):
        now = world.rounds.of("uid-web-0").not_before
        assert world.due(now) == ["web-0"]
        world.refuse("web-0", kind, now, wait)
    assert world.due(now + pause - 0.01) == []
    assert world.due(now + pause) == ["web-0"]


def test_what_is_refused_for_good_is_not_tried_again():
    world = World(count=1)
    world.due()
    world.refuse("web-0", "fatal")
    assert world.due(1e6) == []


def test_an_accepted_eviction_that_does_nothing_is_sent_again():
    world = World(count=1)
    world.due()
    world.accept("web-0")
    assert world.due(rounds.SWALLOWED_S - 1) == []
    assert world.due(rounds.SWALLOWED_S) == ["web-0"]


def test_an_accepted_eviction_that_does_nothing_gives_its_room_back():
    world = World(count=2, allowed=1)
    world.due()
    world.accept("web-0")
    assert world.due(rounds.SWALLOWED_S) == ["web-1"]


def test_budgets_that_may_not_be_read_are_learnt_from_refusals():
    world = World(count=2)
    world.budgets = None
    assert len(world.due()) == 2
    world.refuse("web-0", "budget")
    assert world.due(4.9) == []
    assert world.due(5.0) == ["web-0"]


def test_T6_two_budgets_are_not_tried_but_now_and_then():
    world = World(count=1)
    world.budgets = [pdb("a"), pdb("b")]
    assert world.due(0.0) == []
    assert world.due(30.0) == ["web-0"]
