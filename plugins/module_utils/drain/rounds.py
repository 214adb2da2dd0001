# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may be evicted next: what was tried, what came of it, and how much of each budget is still unspent. No I/O.

For each status of a budget that was seen, at most `disruptionsAllowed` evictions are sent, less those sent before which
that status does not show yet: so no eviction is refused that the budget told us would be. Blocked pods wait for their
budget to change, not for a clock; a slow retry remains, for operators that act only on a refused eviction
(Azure/AKS#4860, Azure/AKS#5637) and for budgets seen wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import pods
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.refusals import Refusal

# Between two evictions sent against a budget that shows no room.
SAFETY_S = 30
# Without sight of the budgets: kubectl's pause after a refusal.
UNSEEN_S = 5
# An accepted eviction whose pod does not begin to terminate was swallowed by a webhook.
SWALLOWED_S = 30
# A status written this long after the pod was seen to terminate has been computed without it.
SETTLED_S = 2
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10


@dataclass
class Tries:
    """What was tried on one pod. unanswered: one of the evictions may have taken effect. not_before: monotonic seconds."""

    count: int = 0
    in_flight: bool = False
    accepted: bool = False
    fatal: bool = False
    unanswered: bool = False
    not_before: float = 0.0
    refusal: Optional[Refusal] = None


@dataclass
class _Spent:
    """An eviction sent against a budget. seen: (version, time) of the budget when the pod was first seen leaving."""

    name: str
    seen: Optional[tuple] = None


class Rounds:
    """The memory of one drain."""

    def __init__(self):
        self._tries = {}
        self._spent = {}
        self._refused_at = {}
        self._asked_at = {}

    def of(self, uid):
        """Tries of a pod."""
        return self._tries.setdefault(uid, Tries())

    def due(self, assessments, present, now):
        """Assessments whose pods are to be evicted now. present: {uid: pod} on the node. now: monotonic seconds."""
        budgets = {one.budget.uid: one.budget for one in assessments if one.budget}
        room = {uid: self._room(standing, present, now) for uid, standing in budgets.items()}
        due = []
        for one in sorted(assessments, key=lambda a: self.of(a.uid).count):
            if one.way in ("leave", "wait", "decide") or not self._may_try(one.uid, now):
                continue
            if one.way in ("at_once", "ask"):
                due.append(one)
            elif one.way == "budget":
                if room[one.budget.uid] > 0:
                    room[one.budget.uid] -= 1
                    due.append(one)
            elif self._safety_due(one, now):
                due.append(one)
        return due

    def sent(self, one, now):
        """An eviction is on its way."""
        tries = self.of(one.uid)
        tries.count += 1
        tries.in_flight = True
        if one.budget:
            self._spent.setdefault(one.budget.uid, {})[one.uid] = _Spent(one.pod["metadata"]["name"])
            self._asked_at[one.budget.uid] = now

    def accepted(self, one, now):
        tries = self.of(one.uid)
        tries.in_flight, tries.accepted, tries.refusal = False, True, None
        tries.not_before = now + SWALLOWED_S

    def refused(self, one, refusal, now):
        tries = self.of(one.uid)
        tries.in_flight, tries.refusal = False, refusal
        tries.fatal = refusal.kind == "fatal"
        tries.unanswered = tries.unanswered or refusal.unanswered
        tries.not_before = now + self._pause_s(one, refusal, tries.count)
        if one.budget:
            self._spent.get(one.budget.uid, {}).pop(one.uid, None)
            if refusal.kind == "budget" or refusal.retry_after_s:
                self._refused_at[one.budget.uid] = (one.budget.version, now)

    def _may_try(self, uid, now):
        tries = self.of(uid)
        return not tries.in_flight and not tries.fatal and now >= tries.not_before

    def _room(self, standing, present, now):
        """Evictions that this status still allows. Asked for at every status, also where it allows none: each shows
        which of those sent it has counted."""
        spent = self._spent.get(standing.uid, {})
        for uid, entry in list(spent.items()):
            if entry.name in standing.disrupted or self._is_settled(uid, entry, standing, present, now):
                del spent[uid]
        version, at = self._refused_at.get(standing.uid, (None, 0.0))
        if version == standing.version and now < at + UNSEEN_S:
            return 0
        return standing.allowed - len(spent)

    def _is_settled(self, uid, entry, standing, present, now):
        """The pod is seen leaving, and the status is a later one: its controller counts it out by itself by now."""
        pod, tries = present.get(uid), self.of(uid)
        if tries.in_flight:
            return False
        if pod is not None and not pods.is_terminating(pod):
            return now >= tries.not_before
        if entry.seen is None:
            entry.seen = (standing.version, now)
            return False
        return standing.version != entry.seen[0] or now >= entry.seen[1] + SETTLED_S

    def _safety_due(self, one, now):
        key = one.budget.uid if one.budget else one.uid
        if now < self._asked_at.setdefault(key, now) + SAFETY_S:
            return False
        self._asked_at[key] = now
        return True

    def _pause_s(self, one, refusal, count):
        if refusal.kind == "budget":
            return 0 if one.budget else UNSEEN_S
        if refusal.kind == "misconfigured":
            return SAFETY_S
        backoff = min(FIRST_PAUSE_S * 2 ** (count - 1), LONGEST_PAUSE_S)
        return max(refusal.retry_after_s or 0, backoff)
