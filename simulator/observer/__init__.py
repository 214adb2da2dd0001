# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observer: watches every change and writes down what must never happen. It shares no code with the product.

It knows the product's public shapes only: the hold annotation and taint, NodeRecords, and the product's user agent.
`Observer` feeds the rules, `rules` says what is wrong, `ledger` remembers what the store does not, `shapes` reads objects.
"""

from __future__ import annotations

import sys
import traceback

from simulator.observer import rules
from simulator.observer.ledger import Ledger


class Observer:
    """violations: [{rule, message, actor, at, and node, pod or pdb}], oldest first.

    problems: failures of the observer itself, so that nobody takes them for "no violation".
    listeners: called with each violation.
    """

    def __init__(self, store, clock, machines, max_unavailable):
        self.clock = clock
        self.violations, self.problems, self.listeners = [], [], []
        self._ledger = Ledger(store, machines, max_unavailable)
        store.subscribe(self._seen)
        machines.watchers.append(self._touched)

    def _seen(self, change):
        if change is None:
            return
        for rule in rules.OF_CHANGES.get(change.resource.plural, ()):
            self._judge(rule, change.actor, change)
        self._ledger.note(change)

    def _touched(self, machine, entry):
        """Something was done to a machine, see Machine.note."""
        for rule in rules.OF_MACHINES:
            self._judge(rule, entry["by"], machine, entry)
        self._ledger.note_machine(machine)

    def _judge(self, rule, actor, *what):
        try:
            found = rule(self._ledger, *what)
        except Exception as error:
            # A rule that fails must not end the write it judges, and must not pass for silence either.
            traceback.print_exc(file=sys.stderr)
            self.problems.append(f"observer: {rule.__name__}: {error!r}")
            return
        if found:
            violation = {**found, "actor": actor, "at": self.clock.stamp()}
            self.violations.append(violation)
            for listener in list(self.listeners):
                listener(violation)
