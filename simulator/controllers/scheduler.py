# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scheduler: the fitting node with the fewest GPUs in use, tried again whenever the cluster changes."""

from __future__ import annotations

import collections

from simulator.controllers.base import Controller
from simulator.objects import condition, is_terminating, key_of, set_condition
from simulator.scheduling import free_resources, why_not

SAMPLE = 50


class Scheduler(Controller):
    name = "scheduler"

    def __init__(self, store, clock):
        super().__init__(store, clock)
        self._pending = {}
        self._start = 0

    def seen(self, change):
        obj, plural = change.object, change.resource.plural
        if plural == "pods":
            key = key_of(obj)
            if change.type == "DELETED" or obj["spec"].get("nodeName"):
                self._pending.pop(key, None)
                if change.type == "DELETED" or is_terminating(obj) or _ended(change):
                    self._retry()
            elif change.old is None:
                self._pending[key] = None
                self.mark(key)
        elif plural == "nodes" and (change.old is None or _relevant(change.old) != _relevant(obj)):
            self._retry()

    def _retry(self):
        for key in self._pending:
            self.mark(key)

    def reconcile(self, key):
        pod = self.store.get("pods", key[1], key[0])
        if pod is None or pod["spec"].get("nodeName") or is_terminating(pod):
            self._pending.pop(key, None)
            return
        nodes = self.store.list("nodes")
        fitting, reasons = [], collections.Counter()
        for i in range(len(nodes)):
            node = nodes[(self._start + i) % len(nodes)]
            why = why_not(pod, node, nodes, self.store.pods_on)
            if why:
                reasons[why] += 1
                continue
            fitting.append(node)
            if len(fitting) >= SAMPLE:
                break
        if fitting:
            self._start = (self._start + 1) % len(nodes)
            best = max(fitting, key=self._score)
            self.store.bind(key[0], key[1], best["metadata"]["name"])
            return
        listed = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
        text = f"0/{len(nodes)} nodes are available: {listed}. preemption: 0/{len(nodes)} nodes are available."
        stamp = self.clock.stamp()
        edit = lambda p: set_condition(p, "PodScheduled", "False", stamp, "Unschedulable", text)  # noqa: E731
        self.store.mutate("pods", key[1], edit, key[0], status=True)

    def _score(self, node):
        free = free_resources(node, self.store.pods_on(node["metadata"]["name"]))
        return free.get("nvidia.com/gpu", 0), free.get("pods", 0)


def _relevant(node):
    spec, status = node.get("spec") or {}, node.get("status") or {}
    labels = node["metadata"].get("labels")
    return spec.get("unschedulable"), spec.get("taints"), status.get("allocatable"), condition(node, "Ready"), labels


def _ended(change):
    before = ((change.old or {}).get("status") or {}).get("phase")
    return change.object["status"].get("phase") in ("Succeeded", "Failed") and before not in ("Succeeded", "Failed")
