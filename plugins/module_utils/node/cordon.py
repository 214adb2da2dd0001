# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `cordon`: take a hold on a node, or give back one's own."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import Conflict, Forbidden, NotFound
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import (
    budget,
    fingerprint,
    gate,
    hold,
    keys,
    records,
)
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.lock import node_lock, pool_lock, release_node_lock
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import read_node, update_node
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

ARGUMENT_SPEC = {
    **CONNECTION_SPEC,
    "node": dict(type="str", required=True),
    "node_uid": dict(type="str"),
    "state": dict(type="str", choices=["held", "released"], default="held"),
    "owner": dict(type="str", default="gpuops"),
    "reason": dict(type="str", default=""),
    "change": dict(type="str", choices=sorted(keys.STAGE_OF_CHANGE), default="validate"),
    "taint": dict(type="str", choices=["auto", "always", "never"], default="auto"),
    "take_cordoned": dict(type="bool", default=False),
    "budget": dict(
        type="dict",
        options={
            "max_unavailable": dict(type="str", required=True),
            "max_parallel": dict(type="int", default=0),
            "pool_label": dict(type="str", default=keys.PRODUCT_LABEL),
        },
    ),
    "proof": dict(type="str", choices=["record", "unchanged"], default="record"),
    "lock_s": dict(type="int", default=30),
}


def run(task):
    """Returns hold (own entry or {}), others[], schedulable, and for released the proof."""
    _check_permission_to_record(task)
    name = task.params["node"]
    with node_lock(task, name):
        result = _release(task, name) if task.params["state"] == "released" else _hold(task, name)
    if task.params["state"] == "released" and not task.check_mode and not result["hold"]:
        release_node_lock(task, name)
    return result


def _check_permission_to_record(task):
    """A node that cannot be proven cannot be released: say so before anything is touched."""
    try:
        task.kube.get(paths.noderecords(), limit=1)
    except NotFound as error:
        raise Failed(
            "The cluster does not know NodeRecord (noderecords.lifecycle.gpuops.io), so no proof could be kept. Nothing "
            "was changed. Run ansible-playbook gpuops.lifecycle.install (in a checkout: playbooks/install.yml) first."
        ) from error


def _hold(task, name):
    params, owner = task.params, task.params["owner"]
    node = read_node(task, name, params["node_uid"])
    if hold.foreign_cordon(node) and not params["take_cordoned"] and not hold.entry_of(node, owner):
        raise Failed(
            f"{name} is cordoned by somebody else, who may be at work on it. Nothing was changed. Ask them, or set "
            "take_cordoned (in a play: gpuops_take_cordoned=true) to work on it; their cordon will stay in any case."
        )
    taint = _may_taint(task)
    if params["budget"] and not hold.entry_of(node, owner):
        with pool_lock(task, _pool_of(node, params["budget"])):
            _check_budget(task, node)
            before, after = _take(task, name, taint)
    else:
        before, after = _take(task, name, taint)
    return _result(task, before, after)


def _take(task, name, taint):
    params = task.params

    def decide(node):
        return hold.take(
            node,
            params["owner"],
            params["reason"] or params["change"],
            params["change"],
            task.run,
            task.kube.server_time(),
            taint,
            fingerprint.of_node(node)["domains"],
        )

    return update_node(task, name, decide, params["node_uid"])


def _may_taint(task):
    """Whether the hold taint can be set without stopping the GPU operator's rollout on every node."""
    if task.params["taint"] != "auto":
        return task.params["taint"] == "always"
    try:
        against = hold.intolerant_operands(task.kube.list(paths.daemonsets()))
    except Forbidden:
        task.warn("DaemonSets may not be read, so the hold is by cordon and annotation only, without the taint.")
        return False
    if against:
        task.progress(
            f"holds by cordon and annotation only: {', '.join(against[:3])} would not tolerate the hold taint"
        )
    return not against


def _pool_of(node, wanted):
    value = (node["metadata"].get("labels") or {}).get(wanted["pool_label"])
    if not value:
        raise Failed(
            f"{node['metadata']['name']} has no label {wanted['pool_label']}, so its pool and budget are unknown. Nothing "
            "was changed. Label it, or set budget.pool_label (in a play: gpuops_pool_label) to a label that your nodes have."
        )
    return f"{wanted['pool_label']}={value}"


def _check_budget(task, node):
    wanted = task.params["budget"]
    label, value = _pool_of(node, wanted).split("=", 1)
    pool = task.kube.list(paths.nodes(), labelSelector=f"{label}={value}")
    name = node["metadata"]["name"]
    try:
        why = budget.refusal(pool, name, task.params["owner"], wanted["max_unavailable"], wanted["max_parallel"])
    except ValueError as error:
        raise Failed(f"budget.max_unavailable: {error}. Nothing was changed.") from error
    if why:
        raise Failed(
            f"{name} may not be taken out of pool {value} now: {why}. Nothing was changed on it. Bring those back or raise "
            "the budget (gpuops_max_unavailable, gpuops_max_parallel), then run the same command again; "
            "ansible-playbook gpuops.lifecycle.explain says what each waits for."
        )


def _release(task, name):
    params, owner = task.params, task.params["owner"]
    proofs = {"record": gate.by_record, "unchanged": gate.by_unchanged}
    node = read_node(task, name, params["node_uid"])
    ledger = records.of_node(task.kube, name)
    if hold.entry_of(node, owner) is None:
        _complete_release(task, node, ledger)
        return {**_result(task, node, node), "proof": "", "record": ""}
    answers = []

    def decide(current):
        entry = hold.entry_of(current, owner)
        if entry is None:
            return None
        answer = proofs[params["proof"]](current, entry, ledger)
        answers.append(answer)
        if not answer.open:
            raise Failed(
                f"{name} stays held: {answer.why}. Nothing was released. Validate it again (ansible-playbook "
                f"gpuops.lifecycle.upgrade --limit {name} goes on where it stopped), or read "
                f"ansible-playbook gpuops.lifecycle.explain --limit {name}.",
                **_result(task, current, current),
            )
        label = "qualified" if params["proof"] == "record" else entry.get("qualification_before")
        return hold.give_back(current, owner, label)

    before, after = update_node(task, name, decide, params["node_uid"])
    if not task.check_mode:
        _complete_release(task, after, ledger)
    proof = answers[-1].why if answers else ""
    record = answers[-1].record if answers else None
    return {**_result(task, before, after), "proof": proof, "record": record["metadata"]["name"] if record else ""}


def _complete_release(task, node, ledger):
    """Write status.release on the passing record of a node that is held no more (also after a run died in between)."""
    passed = gate.current_pass(node, ledger)
    if passed is None or hold.entries(node) or (passed.get("status") or {}).get("release") or task.check_mode:
        return
    body = {
        "metadata": {"resourceVersion": passed["metadata"]["resourceVersion"]},
        "status": {
            "release": {
                "at": task.kube.server_time(),
                "by": task.run,
                "mechanism": f"{task.params['owner']} gave its hold back",
                "checks": {"created": True, "completed": True, "successful": True, "released": True},
            }
        },
    }
    try:
        task.kube.patch(paths.noderecord(passed["metadata"]["name"]) + "/status", body)
        task.changed = True
    except Conflict:
        task.progress(f"record {passed['metadata']['name']} was completed by somebody else")


def _result(task, before, after):
    owner = task.params["owner"]
    result = {
        "hold": hold.entry_of(after, owner) or {},
        "others": [entry for entry in hold.entries(after) if entry["owner"] != owner],
        "schedulable": not hold.is_cordoned(after) and not hold.is_tainted(after),
        "node_uid": after["metadata"]["uid"],
    }
    if task.diff:
        result["diff"] = {"before": _view(before), "after": _view(after)}
    return result


def _view(node):
    return {
        "holds": hold.entries(node),
        "unschedulable": hold.is_cordoned(node),
        "taints": (node.get("spec") or {}).get("taints") or [],
        "labels": {k: v for k, v in (node["metadata"].get("labels") or {}).items() if k.startswith(keys.DOMAIN)},
    }
