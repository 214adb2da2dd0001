# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `node_record_info`: a node's ledger, its chain checked, and whether its evidence is current."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.evidence import chain
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import gate, records
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import read_node
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

ARGUMENT_SPEC = {
    **CONNECTION_SPEC,
    "node": dict(type="str", required=True),
    "kinds": dict(type="list", elements="str", default=[]),
    "limit": dict(type="int", default=20),
}


def run(task):
    """Returns records[] (newest first), chain {intact, problems[]}, current (name of the proof) and total."""
    name = task.params["node"]
    ledger = records.of_node(task.kube, name)
    try:
        proof = gate.current_pass(read_node(task, name), ledger)
    except Failed:
        if not ledger:
            raise
        proof = None
    problems = chain.broken(ledger)
    shown = [r for r in reversed(ledger) if not task.params["kinds"] or r["spec"]["kind"] in task.params["kinds"]]
    return {
        "records": shown[: task.params["limit"]],
        "total": len(ledger),
        "chain": {"intact": not problems, "problems": problems},
        "current": proof["metadata"]["name"] if proof else "",
    }
