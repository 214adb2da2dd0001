# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a drain says while it waits and when it gives up: sentences from assessments. Pure but for the line it hands out."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import pods

FIRST_INTERVAL_S, LONGEST_INTERVAL_S = 5, 30
# Several budgets close in one moment: they make one line.
CHANGE_INTERVAL_S = 1
# Pods named in one line.
NAMED = 4


def blocked_by(one, tries):
    """What keeps the pod: its budget, finalizers, options, and the webhook that refused it."""
    found = list(one.blocked_by)
    if tries.refusal and tries.refusal.webhook:
        found.append(f"webhook {tries.refusal.webhook}")
    return found


def sentence(one, tries, returns=0):
    """Why one pod is still there, and what would help."""
    text = f"{pods.label_of(one.pod)}: {reason(one, tries, returns)}"
    return f"{text} ({one.remedy})" if one.remedy else text


def reason(one, tries, returns=0):
    if returns and one.way != "wait":
        why = "it tolerates the cordon" if pods.tolerates_cordon(one.pod) else "its controller names this node"
        return f"came back to this node {returns} times: {why}"
    if one.way == "wait":
        return one.sentence
    if tries.accepted:
        return "was evicted and does not begin to terminate"
    if tries.refusal and tries.refusal.kind not in ("budget", "gone"):
        return f"is refused ({tries.refusal.kind}): {tries.refusal.text}"
    if tries.in_flight:
        return "is being evicted"
    return one.sentence


class Reporter:
    """Hands out a line at each change of what is waited for, else after 5 s and then ever more rarely, up to 30 s."""

    def __init__(self, say):
        self._say = say
        self._last = None
        self._next_at = self._earliest = 0.0
        self._interval = FIRST_INTERVAL_S

    def report(self, pending, elapsed_s):
        """pending: [(assessment, tries, returns)] of the pods still to go."""
        if not pending:
            return
        state = {
            (one.uid, one.verdict, tries.refusal and tries.refusal.kind)
            for one, tries, _returns in pending
            if one.way in ("hold_off", "decide") or tries.refusal
        }
        changed = self._last is None or not state <= self._last
        if elapsed_s < (self._earliest if changed else self._next_at):
            return
        self._interval = FIRST_INTERVAL_S if changed else min(self._interval * 2, LONGEST_INTERVAL_S)
        self._last, self._next_at, self._earliest = state, elapsed_s + self._interval, elapsed_s + CHANGE_INTERVAL_S
        self._say(line(pending, elapsed_s))


def line(pending, elapsed_s):
    """ "waits for 3 pods (12 s): …" — what is blocked comes first."""
    ordered = sorted(pending, key=lambda item: (item[0].way in ("wait", "at_once"), pods.label_of(item[0].pod)))
    parts = [f"{pods.label_of(one.pod)}: {reason(one, tries, returns)}" for one, tries, returns in ordered[:NAMED]]
    more = f"; and {len(pending) - NAMED} more" if len(pending) > NAMED else ""
    count = f"{len(pending)} pod{'s' if len(pending) > 1 else ''}"
    return f"waits for {count} ({round(elapsed_s)} s): {'; '.join(parts)}{more}"
