# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as the upgrade controller sees them, moved by its step function one reconcile at a time, without a cluster.

A cell is the state of a node after a reconcile: `*` cordoned, `i` with the annotation of a node that was unschedulable
when its upgrade was found necessary, `-` without a state label.
"""

from __future__ import annotations

from simulator.gpu_operator import keys
from simulator.gpu_operator.upgrade import NodeView, Policy, step

SHORT = {
    "": "-",
    keys.DONE: "done",
    keys.REQUIRED: "required",
    keys.CORDON: "cordon",
    keys.WAIT: "wait",
    keys.POD_DELETION: "pod-deletion",
    keys.DRAIN: "drain",
    keys.POD_RESTART: "pod-restart",
    keys.VALIDATION: "validation",
    keys.UNCORDON: "uncordon",
    keys.FAILED: "FAILED",
}
LONG = {short: state for state, short in SHORT.items()}
RECONCILE_S = 120


def view(cell, name="n", **more):
    """A NodeView from a cell such as `validation*i`."""
    state = cell.rstrip("*i")
    marks = cell[len(state) :]
    return NodeView(name, LONG[state], cordoned="*" in marks, initially_unschedulable="i" in marks, **more)


def cell(node):
    return SHORT[node.state] + "*" * node.cordoned + "i" * node.initially_unschedulable


class Fleet:
    """stuck: nodes whose GPU pods cannot be evicted. evicted: nodes whose GPU pods were. never: pod never comes up."""

    def __init__(self, count, **policy):
        self.nodes = {f"n{i}": NodeView(f"n{i}", keys.DONE) for i in range(count)}
        self.policy = Policy(**policy)
        self.rows = {name: [cell(node)] for name, node in self.nodes.items()}
        self.stuck, self.evicted, self.never = set(), [], set()

    def __getitem__(self, name):
        return self.nodes[name]

    def release(self, config_unchanged=False):
        """A new version: every driver pod is out of date."""
        for node in self.nodes.values():
            node.pod_in_sync, node.config_unchanged = False, config_unchanged

    def revert(self):
        """The old version again: pods that were not replaced are what is wanted."""
        for node in self.nodes.values():
            node.pod_in_sync, node.config_unchanged = True, True

    def reconcile(self, times=1):
        for _ in range(times):
            before = {name: cell(node) for name, node in self.nodes.items()}
            for action in step(list(self.nodes.values()), self.policy):
                self._act(self.nodes[action.node], action)
            for name, node in self.nodes.items():
                if node.validating_s is not None:
                    node.validating_s += RECONCILE_S
                if cell(node) != before[name]:
                    self.rows[name].append(cell(node))

    def until(self, name, wanted, limit=40):
        for _ in range(limit):
            if cell(self.nodes[name]) == wanted:
                return
            self.reconcile()
        raise AssertionError(f"{name} never was {wanted}: {self.line(name)}")

    def line(self, name):
        return ", ".join(self.rows[name])

    def _act(self, node, action):
        if action.verb == "state":
            node.state = action.value
        elif action.verb in ("cordon", "uncordon"):
            node.cordoned = action.verb == "cordon"
        elif action.verb == "stamp":
            setattr(node, {keys.VALIDATION_START: "validating_s", keys.WAIT_START: "waited_s"}[action.key], 0)
        elif action.verb == "annotate":
            self._annotate(node, action.key, action.value)
        elif action.verb == "restart":
            node.pod_in_sync, node.pod_ready = True, node.name not in self.never
        elif action.verb in ("evict", "drain") and node.name in self.stuck:
            node.state = keys.DRAIN if action.verb == "evict" and self.policy.drain_enabled else keys.FAILED
        elif action.verb in ("evict", "drain"):
            self.evicted.append(node.name)
            node.state = keys.POD_RESTART
        else:
            raise AssertionError(f"unknown action {action}")

    @staticmethod
    def _annotate(node, key, value):
        if key == keys.INITIAL:
            node.initially_unschedulable = value is not None
        elif key == keys.REQUESTED:
            node.requested = value is not None
        else:
            setattr(node, {keys.VALIDATION_START: "validating_s", keys.WAIT_START: "waited_s"}[key], None)
