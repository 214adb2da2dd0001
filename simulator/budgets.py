# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which budgets select a pod, without asking every budget of the namespace."""

from __future__ import annotations

import collections

from simulator.selectors import by_object, labels_of


class BudgetIndex:
    """PodDisruptionBudgets by namespace and one label pair of their selector; selectors are compiled once."""

    def __init__(self):
        self._buckets = collections.defaultdict(lambda: collections.defaultdict(dict))

    def put(self, pdb, old):
        if old is not None:
            self.remove(old)
        namespace, name = pdb["metadata"]["namespace"], pdb["metadata"]["name"]
        self._buckets[namespace][_pair(pdb)][name] = (pdb, by_object(pdb["spec"].get("selector")))

    def remove(self, pdb):
        namespace, name = pdb["metadata"]["namespace"], pdb["metadata"]["name"]
        self._buckets[namespace][_pair(pdb)].pop(name, None)

    def of(self, namespace, pod):
        buckets = self._buckets.get(namespace)
        if not buckets:
            return []
        pairs = [None, *labels_of(pod).items()]
        return [pdb for pair in pairs for pdb, match in buckets.get(pair, {}).values() if match(pod)]


def _pair(pdb):
    """A label pair that every selected pod carries, or None."""
    wanted = (pdb["spec"].get("selector") or {}).get("matchLabels") or {}
    return next(iter(sorted(wanted.items())), None)
