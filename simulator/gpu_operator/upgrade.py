# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver upgrade state machine, one reconcile as a pure function.

Transitions as measured on k8s-operator-libs and on the operator of September 2025, the awkward ones included: a cordoned
node starts whatever the limit, a failed node returns to service once its driver pod is Ready without a look at the
validator, "done" may mean "not noticed yet". The restart-only path is that of v26.7 (k8s-operator-libs
pkg/upgrade/upgrade_inplace.go, shouldRestartOnly).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from simulator.gpu_operator import keys

MAX_RESTARTS = 10
VALIDATION_TIMEOUT_S = 600


@dataclass
class NodeView:
    """What the controller sees of one managed node.

    waited_s, validating_s: simulated seconds since the start that is written on the node, None while none is written.
    validators: readiness of each validator pod on the node. config_unchanged: the driver pod runs the configuration that
    its DaemonSet asks for (image and environment), whatever else of the template has changed.
    """

    name: str
    state: str = ""
    cordoned: bool = False
    ready: bool = True
    skip: bool = False
    requested: bool = False
    initially_unschedulable: bool = False
    waited_s: float | None = None
    validating_s: float | None = None
    pod_in_sync: bool = True
    config_unchanged: bool = False
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
    """verb: state, cordon, uncordon, annotate, stamp (annotate with the time of now), evict, drain, restart.

    An annotation without a value is taken off. Actions of one node are to be carried out in their order: an annotation
    before the label it belongs to when a node is armed, after it when the node is done.
    """

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
    # A cordoned node that is about to be cordoned counts twice, as in GetUpgradesAvailable.
    unavailable = sum(n.cordoned or not n.ready for n in nodes) + sum(n.state == keys.CORDON for n in nodes)
    limit = max_unavailable(policy, total)
    free = len(waiting) if policy.max_parallel == 0 else policy.max_parallel - in_progress
    free = min(free, limit)
    if unavailable >= limit:
        return 0
    if limit < total:
        free = min(free, limit - unavailable)
    return max(0, free)


def step(nodes, policy):
    """Actions of one reconcile; each node moves by at most one state, judged by how all stood at its start."""
    actions = []
    for node in nodes:
        if node.state in ("", keys.DONE):
            actions += _idle(node)
    free = slots(nodes, policy)
    for node in (n for n in nodes if n.state == keys.REQUIRED):
        if node.requested:
            actions.append(Action("annotate", node.name, keys.REQUESTED))
        if node.skip or (free <= 0 and not node.cordoned):
            continue
        free -= 1
        actions += _start(node, policy)
    for node in nodes:
        actions += _HANDLERS.get(node.state, lambda *_args: [])(node, policy)
    return actions


def _start(node, policy):
    if policy.restart_only and node.config_unchanged and not node.requested:
        return [Action("cordon", node.name), Action("state", node.name, value=keys.POD_RESTART)]
    return [Action("state", node.name, value=keys.CORDON)]


def _idle(node):
    if not node.pod_in_sync or node.requested:
        found = []
        if node.cordoned:
            found.append(Action("annotate", node.name, keys.INITIAL, "true"))
        return [*found, Action("state", node.name, value=keys.REQUIRED)]
    return [Action("state", node.name, value=keys.DONE)] if not node.state else []


def _cordon(node, _policy):
    return [Action("cordon", node.name), Action("state", node.name, value=keys.WAIT)]


def _wait(node, policy):
    if not policy.wait_selector or not node.waited_for_pods:
        cleared = [Action("annotate", node.name, keys.WAIT_START)] if node.waited_s is not None else []
        return [*cleared, Action("state", node.name, value=keys.POD_DELETION)]
    if node.waited_s is None:
        return [Action("stamp", node.name, keys.WAIT_START)] if policy.wait_timeout_s else []
    if policy.wait_timeout_s and node.waited_s > policy.wait_timeout_s:
        return [Action("state", node.name, value=keys.POD_DELETION), Action("annotate", node.name, keys.WAIT_START)]
    return []


def _pod_deletion(node, _policy):
    return [Action("evict", node.name)]


def _drain(node, policy):
    if not policy.drain_enabled:
        return [Action("state", node.name, value=keys.POD_RESTART)]
    return [Action("drain", node.name)]


def _pod_restart(node, _policy):
    if not node.pod_in_sync:
        return [] if node.pod_terminating else [Action("restart", node.name)]
    if node.pod_ready:
        return [Action("state", node.name, value=keys.VALIDATION)]
    if node.pod_restarts > MAX_RESTARTS:
        return [Action("state", node.name, value=keys.FAILED)]
    return []


def _validation(node, _policy):
    if not node.validators:
        return []
    if all(node.validators):
        return [*_clear_validation(node), *_leave(node)]
    if node.validating_s is None:
        return [Action("stamp", node.name, keys.VALIDATION_START)]
    if node.validating_s > VALIDATION_TIMEOUT_S:
        return [Action("state", node.name, value=keys.FAILED), *_clear_validation(node)]
    return []


def _failed(node, _policy):
    return _leave(node) if node.pod_in_sync and node.pod_ready else []


def _leave(node):
    if node.initially_unschedulable:
        return [Action("state", node.name, value=keys.DONE), Action("annotate", node.name, keys.INITIAL)]
    return [Action("state", node.name, value=keys.UNCORDON)]


def _clear_validation(node):
    return [Action("annotate", node.name, keys.VALIDATION_START)] if node.validating_s is not None else []


def _uncordon(node, _policy):
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
