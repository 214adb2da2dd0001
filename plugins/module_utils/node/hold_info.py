# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `hold_info`: why a node is out, and what would bring it back."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import Forbidden, NotFound
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import gate, hold, keys, records, why
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import read_node

ARGUMENT_SPEC = {
    **CONNECTION_SPEC,
    "node": dict(type="str", required=True),
    "owner": dict(type="str", default="gpuops"),
}


def run(task):
    """Reads the node and its ledger; a ledger that may not be read makes `evidence` unknown, never current."""
    name, owner = task.params["node"], task.params["owner"]
    node = read_node(task, name)
    try:
        ledger, evidence = records.of_node(task.kube, name), "none"
    except (Forbidden, NotFound) as error:
        ledger, evidence = [], "unknown"
        task.warn(f"The records of {name} cannot be read: {error}")
    judging = [
        r for r in ledger if r["spec"]["kind"] in gate.JUDGING and r["spec"]["node"]["uid"] == node["metadata"]["uid"]
    ]
    newest = judging[-1] if judging else None
    if newest:
        evidence = "current" if gate.current_pass(node, ledger) else newest["spec"].get("verdict", "unknown")
        evidence = "stale" if evidence == "pass" else evidence
    found = why.reasons(node, newest)
    labels, mine = node["metadata"].get("labels") or {}, hold.entry_of(node, owner)
    return {
        "node_uid": node["metadata"]["uid"],
        "schedulable": not hold.is_out(node),
        "foreign_cordon": hold.foreign_cordon(node),
        "hold": mine or {},
        "releasable": bool(mine) and gate.by_record(node, mine, ledger).open,
        "others": [entry for entry in hold.entries(node) if entry["owner"] != owner],
        "reasons": found,
        "evidence": evidence,
        "record": newest["metadata"]["name"] if newest else "",
        "record_reason": newest["spec"].get("reason", "") if newest else "",
        "driver": labels.get(keys.DRIVER_VERSION_LABEL, ""),
        "product": labels.get(keys.PRODUCT_LABEL, ""),
        "gpus": int(labels.get(keys.COUNT_LABEL) or 0),
        "text": _text(name, found, evidence),
    }


def _text(name, found, evidence):
    """One line a reason, ready to print."""
    if not found:
        return [f"{name}: in service; evidence {evidence}"]
    return [
        f"{name}: {r['kind']} of {r['whose']}{' since ' + r['since'] if r['since'] else ''}: {r['why']}. Ends: {r['ends']}"
        for r in found
    ]
