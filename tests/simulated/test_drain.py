# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drain against a simulated cluster's API: real watches, budgets, workload controllers and kubelets."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import info, operation
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Kube
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Task

MERGE = "application/merge-patch+json"
BUDGET = "/apis/policy/v1/namespaces/inference/poddisruptionbudgets/vllm-chat"


def task_for(cluster, spec, node, check_mode=False, **params):
    values = {name: option.get("default") for name, option in spec.items()}
    values.update(node=node, kubeconfig=str(cluster.kubeconfig), **params)
    lines = []
    kube = Kube(values, read_only=check_mode)
    task = Task("drain", values, check_mode=check_mode, run="run-1", progress=lines.append, kube=kube)
    task.lines = lines
    return task


def node_of(cluster, app):
    """The node that the first pod of an app runs on."""
    pods = cluster.api.get(f"/api/v1/pods?labelSelector=app%3D{app}").items
    return sorted(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))[0]


def workload(cluster, node):
    """Names of the pods on a node that a drain has to get away."""
    return sorted(
        pod["metadata"]["name"]
        for pod in cluster.pods_on(node)
        if pod["metadata"]["ownerReferences"][0]["kind"] not in ("DaemonSet", "Node")
        and pod["status"]["phase"] not in ("Succeeded", "Failed")
    )


def mutating(cluster):
    return {agent: count["mutating"] for agent, count in cluster.get("/sim/requests")["by_agent"].items()}


@pytest.fixture
def held(cluster, product):
    """(cluster, a node with a replica of vllm-chat), cordoned."""
    node = node_of(cluster, "vllm-chat")
    product.cordon(node)
    return cluster, node


def test_a_node_is_empty_when_the_drain_returns_and_no_request_was_wasted(held):
    cluster, node = held
    before = workload(cluster, node)
    task = task_for(cluster, operation.ARGUMENT_SPEC, node)
    result = operation.run(task)
    assert workload(cluster, node) == []
    outcomes = {pod["name"]: (pod["outcome"], pod["attempts"]) for pod in result["pods"]}
    assert {name: outcomes[name] for name in before} == dict.fromkeys(before, ("evicted", 1))
    assert {outcome for name, outcome in outcomes.items() if name not in before} <= {("skipped", 0)}
    assert result["requests"] <= len(before) + 10
    assert task.changed is True
    assert cluster.violations == []


def test_a_second_drain_changes_nothing(held):
    cluster, node = held
    operation.run(task_for(cluster, operation.ARGUMENT_SPEC, node))
    again = task_for(cluster, operation.ARGUMENT_SPEC, node)
    operation.run(again)
    assert again.changed is False


def test_a_budget_that_can_never_allow_it_is_named_beforehand_and_at_the_deadline(held):
    cluster, node = held
    assert cluster.api.call("PATCH", BUDGET, {"spec": {"minAvailable": 2}}, MERGE).status == 200
    cluster.until(lambda: cluster.api.get(BUDGET).body["status"]["desiredHealthy"] == 2)
    forecast = info.run(task_for(cluster, info.ARGUMENT_SPEC, node))
    assert forecast["verdict"] == "blocked_by_spec"
    assert "needs 2 healthy, has 2 of 2" in forecast["blockers"][0]["reason"]
    task = task_for(cluster, operation.ARGUMENT_SPEC, node, timeout_s=3)
    with pytest.raises(Failed) as failed:
        operation.run(task)
    assert "loosen budget inference/vllm-chat" in failed.value.message
    left = [pod for pod in failed.value.result["pods"] if pod["outcome"] == "left"]
    assert {tuple(pod["blocked_by"]) for pod in left} == {("pdb inference/vllm-chat",)}
    assert {pod["attempts"] for pod in left} == {0}
    assert cluster.node(node)["spec"]["unschedulable"] is True
    assert cluster.violations == []


def test_check_mode_says_what_would_go_and_writes_nothing(cluster, product):
    node = node_of(cluster, "vllm-chat")
    before = mutating(cluster)
    task = task_for(cluster, operation.ARGUMENT_SPEC, node, check_mode=True)
    result = operation.run(task)
    assert any("fits budget vllm-chat (1 allowed)" in line for line in task.lines)
    assert result["verdict"] == "now"
    assert task.changed is True
    ours = {agent: n - before.get(agent, 0) for agent, n in mutating(cluster).items() if agent.startswith("gpuops")}
    assert set(ours.values()) <= {0}


@pytest.mark.parametrize("status", [429, 500])
def test_refusals_that_pass_do_not_end_the_drain(held, status):
    cluster, node = held
    before = workload(cluster, node)
    cluster.break_("api_error", verb="create", resource="pods/eviction", status=status, times=2)
    result = operation.run(task_for(cluster, operation.ARGUMENT_SPEC, node))
    assert workload(cluster, node) == []
    assert sum(pod["attempts"] for pod in result["pods"]) == len(before) + 2
    assert cluster.violations == []


def test_a_pod_held_by_a_finalizer_is_named_with_it(held):
    cluster, node = held
    cluster.break_("stuck_finalizer", node)
    with pytest.raises(Failed) as failed:
        operation.run(task_for(cluster, operation.ARGUMENT_SPEC, node, timeout_s=8))
    stuck = [pod for pod in failed.value.result["pods"] if pod["outcome"] == "left"]
    assert any(text.startswith("finalizer ") for pod in stuck for text in pod["blocked_by"])


def test_a_node_opened_by_somebody_else_is_not_drained_further(held):
    cluster, node = held
    assert cluster.api.call("PATCH", BUDGET, {"spec": {"minAvailable": 2}}, MERGE).status == 200
    cluster.until(lambda: cluster.api.get(BUDGET).body["status"]["desiredHealthy"] == 2)
    task = task_for(cluster, operation.ARGUMENT_SPEC, node, timeout_s=60)

    def open_it(line):
        task.lines.append(line)
        if "needs 2 healthy" in line:
            cluster.api.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}}, MERGE)

    task.progress = open_it
    with pytest.raises(Failed, match="opened again by somebody else"):
        operation.run(task)
