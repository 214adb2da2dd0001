# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver upgrade state machine, one reconcile as a pure function.

Transitions as measured on k8s-operator-libs and on the operator of September 2025, the awkward ones included: a cordoned
node starts whatever the limit, a failed node returns to service once its driver pod is Ready without a look at the
validator, "done" may mean "not noticed yet".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from simulator.gpu_operator import keys

MAX_RESTARTS = 10
VALIDATION_TIMEOUT_S = 600


@dataclass
class NodeView:
    """What the controller sees of one managed node. Times are seconds of the caller's clock."""

    name: str
    state: str = ""
    cordoned: bool = False
    ready: bool = True
    skip: bool = False
    requested: bool = False
    initially_unschedulable: bool = False
    wait_started: float | None = None
    validation_started: float | None = None
    pod_in_sync: bool = True
    pod_ready: bool = True
    pod_restarts: int = 0
    pod_terminating: bool = False
    validators: list = field(default_factory=lambda: [True])
    waited_for_pods: int = 0


@dataclass
class Policy:
    """driver.upgradePolicy; max_unavailable: int or "25%" (rounds up)."""

    max_parallel: int = 1
    max_unavailable: int | str | None = "25%"
    wait_selector: str = ""
    wait_timeout_s: int = 0
    drain_enabled: bool = False
    restart_only: bool = False


@dataclass(frozen=True)
class Action:
    """verb: state, cordon, uncordon, annotate, unrequest, evict, drain, restart."""

    verb: str
    node: str
    key: str = ""
    value: object = None


def max_unavailable(policy, total):
    value = policy.max_unavailable
    if value is None:
        return total
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(total * int(value[:-1]) / 100)
    return int(value)


def slots(nodes, policy):
    """How many nodes may start now."""
    total = len(nodes)
    waiting = [n for n in nodes if n.state == keys.REQUIRED]
    in_progress = sum(n.state not in ("", keys.DONE, keys.REQUIRED) for n in nodes)
    unavailable = sum(n.cordoned or not n.ready or n.state == keys.CORDON for n in nodes)
    limit = max_unavailable(policy, total)
    free = len(waiting) if policy.max_parallel == 0 else policy.max_parallel - in_progress
    free = min(free, limit)
    if unavailable >= limit:
        return 0
    if limit < total:
        free = min(free, limit - unavailable)
    return max(0, free)


def step(nodes, policy, now):
    """Actions of one reconcile; each node moves by at most one state, judged by how all stood at its start."""
    actions = []
    for node in nodes:
        if node.state in ("", keys.DONE):
            actions += _idle(node)
    free = slots(nodes, policy)
    for node in (n for n in nodes if n.state == keys.REQUIRED):
        if node.requested:
            actions.append(Action("unrequest", node.name))
        if node.skip or (free <= 0 and not node.cordoned):
            continue
        free -= 1
        actions.append(Action("state", node.name, value=keys.CORDON))
    for node in nodes:
        actions += _HANDLERS.get(node.state, lambda *_args: [])(node, policy, now)
    return actions


def _idle(node):
    if not node.pod_in_sync or node.requested:
        found = []
        if node.cordoned:
            found.append(Action("annotate", node.name, keys.INITIAL, "true"))
        return [*found, Action("state", node.name, value=keys.REQUIRED)]
    return [Action("state", node.name, value=keys.DONE)] if not node.state else []


def _cordon(node, policy, _now):
    after = keys.POD_RESTART if policy.restart_only else keys.WAIT
    return [Action("cordon", node.name), Action("state", node.name, value=after)]


def _wait(node, policy, now):
    if not policy.wait_selector or not node.waited_for_pods:
        cleared = [Action("annotate", node.name, keys.WAIT_START)] if node.wait_started is not None else []
        return [*cleared, Action("state", node.name, value=keys.POD_DELETION)]
    if node.wait_started is None:
        return [Action("annotate", node.name, keys.WAIT_START, now)] if policy.wait_timeout_s else []
    if now - node.wait_started > policy.wait_timeout_s:
        return [Action("annotate", node.name, keys.WAIT_START), Action("state", node.name, value=keys.POD_DELETION)]
    return []


def _pod_deletion(node, _policy, _now):
    return [Action("evict", node.name)]


def _drain(node, policy, _now):
    if not policy.drain_enabled:
        return [Action("state", node.name, value=keys.POD_RESTART)]
    return [Action("drain", node.name)]


def _pod_restart(node, _policy, _now):
    if not node.pod_in_sync:
        return [] if node.pod_terminating else [Action("restart", node.name)]
    if node.pod_ready:
        return [Action("state", node.name, value=keys.VALIDATION)]
    if node.pod_restarts > MAX_RESTARTS:
        return [Action("state", node.name, value=keys.FAILED)]
    return []


def _validation(node, _policy, now):
    if not node.validators:
        return []
    if all(node.validators):
        return [*_clear_validation(node), *_leave(node)]
    if node.validation_started is None:
        return [Action("annotate", node.name, keys.VALIDATION_START, now)]
    if now - node.validation_started > VALIDATION_TIMEOUT_S:
        return [*_clear_validation(node), Action("state", node.name, value=keys.FAILED)]
    return []


def _failed(node, _policy, _now):
    return _leave(node) if node.pod_in_sync and node.pod_ready else []


def _leave(node):
    if node.initially_unschedulable:
        return [Action("state", node.name, value=keys.DONE), Action("annotate", node.name, keys.INITIAL)]
    return [Action("state", node.name, value=keys.UNCORDON)]


def _clear_validation(node):
    return [Action("annotate", node.name, keys.VALIDATION_START)] if node.validation_started is not None else []


def _uncordon(node, _policy, _now):
    return [Action("uncordon", node.name), Action("state", node.name, value=keys.DONE)]


_HANDLERS = {
    keys.CORDON: _cordon,
    keys.WAIT: _wait,
    keys.POD_DELETION: _pod_deletion,
    keys.DRAIN: _drain,
    keys.POD_RESTART: _pod_restart,
    keys.VALIDATION: _validation,
    keys.FAILED: _failed,
    keys.UNCORDON: _uncordon,
}
