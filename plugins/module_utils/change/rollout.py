# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of a driver rollout that touches all nodes: the ClusterPolicy, and skip labels on whatever must wait.

Patching the ClusterPolicy makes every node's driver out of date at once. So each node gets the skip label first; a node
loses it again when its own turn has come. Nodes that nobody asked for keep it: taking it off would start them.
"""

from __future__ import annotations

import json

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import preconditions
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import Conflict, NotFound
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys, operands
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.lock import pool_lock
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import update_node
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

LEASE = "driver-rollout"
# A DaemonSet's numbers and a node's readiness may be off for a moment: looked at again before they count.
SETTLE_S = 60


def find_policy(task):
    """The ClusterPolicy of `policy`, or the only one there is."""
    named = task.params["policy"]
    try:
        found = [task.kube.get(paths.clusterpolicy(named))] if named else task.kube.list(paths.clusterpolicies())
    except NotFound as error:
        what = f"ClusterPolicy {named}" if named else "ClusterPolicy resource"
        raise Failed(
            f"The cluster has no {what}, so its driver is not managed by the GPU operator. Nothing was changed; this version "
            "changes drivers through the operator only."
        ) from error
    if len(found) != 1:
        names = ", ".join(p["metadata"]["name"] for p in found) or "none"
        raise Failed(f"One ClusterPolicy is expected, there are: {names}. Nothing was changed. Name it with `policy`.")
    return found[0]


def prepare(task, name):
    """Skip labels everywhere, then the new version in the ClusterPolicy; once for all nodes, under a Lease."""
    with pool_lock(task, LEASE):
        policy = find_policy(task)
        if wanted_by(policy) == task.params["version"]:
            return
        for node in check_beginning(task, policy, name):
            if operands.labels_of(node).get(keys.DRIVER_VERSION_LABEL) != task.params["version"]:
                update_node(task, node["metadata"]["name"], lambda n: with_skip(n, task), node["metadata"]["uid"])
        _set_version(task, policy)
        task.progress(f"ClusterPolicy {policy['metadata']['name']} now wants driver {task.params['version']}")


def wanted_by(policy):
    return (policy["spec"].get("driver") or {}).get("version") or ""


def check_beginning(task, policy, name):
    """The nodes with a driver pod, once nothing stands in the way of a rollout. Only reads."""
    _refuse_owned(task, policy)
    wrong = preconditions.of_policy(policy)
    if wrong:
        raise Failed(f"The driver rollout was not begun: {'; '.join(wrong)}. The driver of no node was changed.")
    end = task.monotonic() + SETTLE_S
    while True:
        daemonsets, pods, nodes = _driver_objects(task)
        found = [*preconditions.stops(daemonsets, pods, nodes), *preconditions.disturbs(name, nodes)]
        if not found:
            return nodes
        if task.monotonic() > end:
            raise Failed(f"The driver rollout was not begun: {'; '.join(found)}. The driver of no node was changed.")
        task.progress(f"waits before the rollout begins: {found[0]}")
        task.sleep(5)


def stops(task, policy):
    """Why the operator upgrades no node now, as sentences."""
    return [*preconditions.of_policy(policy), *preconditions.stops(*_driver_objects(task))]


def _refuse_owned(task, policy):
    name, mark, release = (
        policy["metadata"]["name"],
        preconditions.gitops_mark(policy),
        preconditions.helm_release(policy),
    )
    if mark and not task.params["accept_gitops"]:
        raise Failed(
            f"ClusterPolicy {name} is managed by GitOps ({mark}), which would undo the change. Nothing was changed. Pause its "
            "reconciliation and set accept_gitops, or change driver.version in its source after putting the nodes on hold."
        )
    if release:
        task.warn(
            f"ClusterPolicy {name} comes from Helm release {release}: a later helm upgrade sets driver.version back unless its "
            f"values say {task.params['version']} too."
        )


def _driver_objects(task):
    """(driver DaemonSets, their pods, the nodes those are on)."""
    namespace = task.params["operator_namespace"]
    pods = [p for p in task.kube.list(paths.pods(namespace)) if operands.is_driver(p) and not operands.is_finished(p)]
    daemonsets = [d for d in task.kube.list(paths.daemonsets(namespace)) if _is_driver(d)]
    on = {p["spec"].get("nodeName") for p in pods}
    nodes = [n for n in task.kube.list(paths.nodes()) if n["metadata"]["name"] in on]
    return daemonsets, pods, nodes


def _is_driver(daemonset):
    return operands.labels_of(daemonset["spec"]["template"]).get(operands.COMPONENT) == operands.DRIVER


def with_skip(node, task):
    """Merge patch that keeps the node from starting, with our mark; None where a skip label is on already."""
    labels, annotations = operands.labels_of(node), node["metadata"].get("annotations") or {}
    if labels.get(keys.UPGRADE_SKIP) == "true":
        return None
    mark = json.dumps({"run": task.run, "since": task.kube.server_time()})
    if keys.SKIP_SET_BY in annotations:
        mark = annotations[keys.SKIP_SET_BY]
    return {
        "metadata": {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "labels": {keys.UPGRADE_SKIP: "true"},
            "annotations": {keys.SKIP_SET_BY: mark},
        }
    }


def _set_version(task, policy):
    """Write the version, decided anew when the policy moved; another version that appears meanwhile is not overwritten."""
    decided_on, name = wanted_by(policy), policy["metadata"]["name"]
    for _attempt in range(5):
        body = {
            "metadata": {"resourceVersion": policy["metadata"]["resourceVersion"]},
            "spec": {"driver": {"version": task.params["version"]}},
        }
        try:
            task.kube.patch(paths.clusterpolicy(name), body)
        except Conflict:
            policy = find_policy(task)
            if wanted_by(policy) == decided_on:
                continue
            break
        task.changed = True
        return
    raise Failed(
        f"ClusterPolicy {name} is being changed by somebody else: it wanted driver {decided_on or 'unknown'} and now wants "
        f"{wanted_by(policy) or 'unknown'}. Settle with them which version is wanted, then run the same command again."
    )


def left_skipped(task, name):
    """Names of other nodes that carry our skip label: they wait for their turn, or nobody asked for them."""
    nodes = task.kube.list(paths.nodes(), labelSelector=f"{keys.UPGRADE_SKIP}=true")
    ours = [n for n in nodes if keys.SKIP_SET_BY in (n["metadata"].get("annotations") or {})]
    return sorted(n["metadata"]["name"] for n in ours if n["metadata"]["name"] != name)
