# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A live copy stays true over broken watches, forgotten versions and re-lists, and wakes who waits."""

from __future__ import annotations

import threading

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Listing
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.mirror import Mirror


def obj(uid, version, **spec):
    return {"metadata": {"uid": uid, "name": uid, "resourceVersion": str(version)}, "spec": spec}


class ScriptedKube:
    """lists and watches are taken in order; a watch is a list of events, an error ends it by raising."""

    def __init__(self, lists, watches):
        self.lists, self.watches, self.asked = list(lists), list(watches), []
        self.idle = threading.Event()

    def list(self, _path, **_query):
        found = self.lists.pop(0)
        if isinstance(found, Exception):
            raise found
        return Listing(found, "10")

    def watch(self, _path, version, **_query):
        self.asked.append(version)
        if not self.watches:
            self.idle.set()
            threading.Event().wait(5)
            return
        for event in self.watches.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


def mirrored(kube):
    return Mirror(kube, sleep=lambda _s: None).add("x", "/x")


def test_events_change_the_copy_and_wake_the_waiter():
    kube = ScriptedKube(
        [[obj("a", 1)]], [[("MODIFIED", obj("a", 11, n=2)), ("ADDED", obj("b", 12)), ("DELETED", obj("a", 13))]]
    )
    with mirrored(kube) as mirror:
        assert mirror.wait_for(lambda: set(mirror.objects("x")) == {"b"}, 5)


def test_a_broken_watch_goes_on_from_the_last_version():
    kube = ScriptedKube([[]], [[("ADDED", obj("a", 11)), errors.Unreachable("gone")], [("ADDED", obj("b", 12))]])
    with mirrored(kube) as mirror:
        assert mirror.wait_for(lambda: len(mirror.objects("x")) == 2, 5)
    assert kube.asked[:2] == ["10", "11"]


def test_after_a_410_what_a_new_list_lacks_counts_as_deleted():
    kube = ScriptedKube([[obj("a", 1), obj("b", 2)], [obj("b", 2)]], [[errors.Expired("too old", 410)]])
    with mirrored(kube) as mirror:
        assert mirror.wait_for(lambda: set(mirror.objects("x")) == {"b"}, 5)


def test_a_bookmark_moves_the_version_only():
    kube = ScriptedKube([[obj("a", 1)]], [[("BOOKMARK", {"metadata": {"resourceVersion": "99"}})], []])
    with mirrored(kube) as mirror:
        assert kube.idle.wait(5)
        assert set(mirror.objects("x")) == {"a"}
    assert "99" in kube.asked


@pytest.mark.parametrize("error", [errors.Forbidden("no", 403), errors.Unauthorized("no", 401), ValueError("a bug")])
def test_what_waiting_does_not_cure_reaches_the_waiter(error):
    kube = ScriptedKube([[]], [[error]])
    with mirrored(kube) as mirror, pytest.raises(type(error)):
        mirror.wait_for(lambda: False, 5)


def test_the_deadline_ends_the_wait_and_ticks_come_before_it():
    ticks = []
    with mirrored(ScriptedKube([[]], [])) as mirror:
        assert mirror.wait_for(lambda: False, 0.3, tick_s=0.1, on_tick=lambda: ticks.append(1)) is False
    assert ticks
