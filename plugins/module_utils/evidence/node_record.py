# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `node_record`: append one record to a node's ledger."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.evidence import record
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import Conflict
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import hold, records
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.lock import node_lock
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import read_node, update_node
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

ARGUMENT_SPEC = {
    **CONNECTION_SPEC,
    "node": dict(type="str", required=True),
    "node_uid": dict(type="str"),
    "kind": dict(type="str", choices=list(record.KINDS), default="Qualification"),
    "verdict": dict(type="str", choices=list(record.VERDICTS), default="unknown"),
    "change": dict(
        type="dict",
        options={"event": dict(type="str"), "from": dict(type="str"), "to": dict(type="str")},
    ),
    "tests": dict(type="list", elements="dict", default=[]),
    "gpus": dict(type="list", elements="dict", default=[]),
    "reason": dict(type="str", default=""),
    "owner": dict(type="str", default="gpuops"),
    "lock_s": dict(type="int", default=30),
}
ATTEMPTS = 5


def run(task):
    """Returns record (as created; as it would be created in check mode) and its verdict."""
    name, kind = task.params["node"], task.params["kind"]
    with node_lock(task, name):
        created = _append(task, name, kind)
        if kind == "Qualification" and not task.check_mode:
            _label(task, name, created["spec"]["verdict"])
    return {"record": created, "verdict": created["spec"]["verdict"], "reason": created["spec"]["reason"]}


def _append(task, name, kind):
    for _attempt in range(ATTEMPTS):
        node = read_node(task, name, task.params["node_uid"])
        ledger = records.of_node(task.kube, name)
        wanted = record.body(node, kind, task.run, task.params, ledger[-1] if ledger else None)
        if task.check_mode:
            task.changed = True
            return wanted
        try:
            created = task.kube.create(paths.noderecords(), wanted, fieldValidation="Strict")
        except Conflict:
            continue
        task.changed = True
        return created
    raise Failed(f"Somebody else keeps appending to the records of {name}; run the same command again.")


def _label(task, name, verdict):
    """The verdict as a label, so that a budget and a person see it; a pass becomes visible with the release."""
    if verdict == "pass":
        update_node(task, name, lambda node: hold.set_qualification(node, "held") if hold.entries(node) else None)
    else:
        update_node(task, name, lambda node: hold.set_qualification(node, "failed" if verdict == "fail" else "unknown"))
