# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scheduler: the fitting node with the fewest GPUs in use, tried again whenever room may have come up."""

from __future__ import annotations

import collections

from simulator.controllers.base import Controller
from simulator.objects import condition, is_finished, is_terminating, key_of, requests_of, set_condition
from simulator.scheduling import avoided, free_resources, preferred_weight, why_not
from simulator.spreading import Spreading, required_terms

SAMPLE = 20
NAME = "default-scheduler"
RESOLVABLE = ("Insufficient", "Too many pods", "node(s) didn't match pod", "node(s) didn't satisfy")


class Scheduler(Controller):
    """Looks at nodes until it has SAMPLE fitting ones (percentageOfNodesToScore), from where it stopped last time."""

    name = "scheduler"

    def __init__(self, store, clock):
        super().__init__(store, clock)
        self._pending = {}
        self._repellers = {}
        self._free = {}
        self._start = 0

    def seen(self, change):
        obj, plural = change.object, change.resource.plural
        if plural == "pods":
            self._seen_pod(change, obj)
        elif plural == "nodes":
            self._free.pop(obj["metadata"]["name"], None)
            if change.type != "DELETED" and (change.old is None or _relevant(change.old) != _relevant(obj)):
                self._retry()

    def _seen_pod(self, change, pod):
        key, node = key_of(pod), pod["spec"].get("nodeName")
        gone = change.type == "DELETED"
        if not node:
            if gone:
                self._pending.pop(key, None)
            elif pod["spec"].get("schedulerName") == NAME and (change.old is None or change.old["spec"] != pod["spec"]):
                self._pending[key] = None
                self.mark(key)
            return
        self._pending.pop(key, None)
        self._account(change, node)
        if required_terms(pod, "podAntiAffinity"):
            self._repellers[key] = pod
            if gone:
                del self._repellers[key]
        if gone or _ended(change) or is_terminating(pod) and not is_terminating(change.old or pod):
            self._retry()

    def _account(self, change, node):
        """Keep what is free on the node, for as long as it is known."""
        free = self._free.get(node)
        if free is None:
            return
        held = change.old is not None and bool(change.old["spec"].get("nodeName")) and not is_finished(change.old)
        holds = change.type != "DELETED" and not is_finished(change.object)
        if held == holds:
            return
        sign = -1 if holds else 1
        free["pods"] += sign
        for name, amount in requests_of(change.object).items():
            free[name] = free.get(name, 0) + sign * amount

    def _retry(self):
        for key in self._pending:
            self.mark(key)

    def reconcile(self, key):
        pod = self.store.get("pods", key[1], key[0])
        if pod is None or pod["spec"].get("nodeName") or is_terminating(pod):
            self._pending.pop(key, None)
            return
        if pod["spec"].get("schedulingGates"):
            self._say(key, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
            return
        nodes, requests = self.store.list("nodes"), requests_of(pod)
        fitting, against, helpful, spreading = [], collections.Counter(), 0, None
        for i in range(len(nodes)):
            node = nodes[(self._start + i) % len(nodes)]
            reasons = why_not(pod, node, requests, self._free_on(node))
            if not reasons:
                spreading = spreading or Spreading(pod, nodes, self.store.pods_on, self._repellers.values())
                reasons = [why] if (why := spreading.why_not(node)) else []
            against.update(reasons)
            helpful += any(why.startswith(RESOLVABLE) for why in reasons)
            if not reasons:
                fitting.append(node)
                if len(fitting) >= SAMPLE:
                    break
        if fitting:
            self._start = (self._start + 1) % len(nodes)
            best = max(fitting, key=lambda node: self._score(pod, node, spreading))
            self._pending.pop(key, None)
            self.store.bind(key[0], key[1], best["metadata"]["name"])
            return
        self._say(key, "Unschedulable", refusal(len(nodes), against, helpful))

    def _say(self, key, reason, message):
        stamp = self.clock.stamp()
        edit = lambda p: set_condition(p, "PodScheduled", "False", stamp, reason, message)  # noqa: E731
        self.store.mutate("pods", key[1], edit, key[0], status=True)

    def _free_on(self, node):
        name = node["metadata"]["name"]
        free = self._free.get(name)
        if free is None:
            free = self._free[name] = free_resources(node, self.store.pods_on(name))
        return free

    def _score(self, pod, node, spreading):
        free = self._free_on(node)
        return (
            -avoided(pod, node),
            -spreading.crowding(node),
            preferred_weight(pod["spec"], node),
            free.get("nvidia.com/gpu", 0),
            free.get("pods", 0),
        )


def refusal(nodes, against, helpful):
    """The message of condition PodScheduled (FitError of kube-scheduler 1.36).

    against: how many nodes by reason. helpful: nodes on which ending other pods would help.
    """
    if not nodes:
        return "no nodes available to schedule pods"
    victims, hopeless = "No preemption victims found for incoming pod", "Preemption is not helpful for scheduling"
    preemption = [(helpful, victims), (nodes - helpful, hopeless)]
    first, second = (
        ", ".join(sorted(f"{count} {why}" for count, why in counted if count))
        for counted in ([(count, why) for why, count in against.items()], preemption)
    )
    return f"0/{nodes} nodes are available: {first}. preemption: 0/{nodes} nodes are available: {second}."


def _relevant(node):
    spec, status = node.get("spec") or {}, node.get("status") or {}
    labels = node["metadata"].get("labels")
    return spec.get("unschedulable"), spec.get("taints"), status.get("allocatable"), condition(node, "Ready"), labels


def _ended(change):
    before = ((change.old or {}).get("status") or {}).get("phase")
    return change.object["status"].get("phase") in ("Succeeded", "Failed") and before not in ("Succeeded", "Failed")
