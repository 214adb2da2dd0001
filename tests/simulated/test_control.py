# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the simulated cluster answers beside the Kubernetes API: /sim."""

from __future__ import annotations

import concurrent.futures

import pytest

from tests.simulated.serving import GPU_NODES, serving

NODE_B = "/api/v1/nodes/gpu-node-b"
CHAT = "/api/v1/namespaces/inference/pods?labelSelector=app%3Dvllm-chat"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), speed=200) as running:
        yield running


@pytest.fixture
def cluster(served):
    """One process for all tests here; each begins at the start state."""
    served.reset()
    yield served
    assert served.get("/sim/state")["problems"] == []


def cordon(cluster, value=True, path=NODE_B):
    answer = cluster.api.merge(path, {"spec": {"unschedulable": value}})
    assert answer.status == 200, answer.body


def test_starts_as_the_scenario_says(cluster):
    state = cluster.get("/sim/state")
    nodes = {node["name"]: node for node in state["nodes"]}
    assert [name for name in nodes if nodes[name]["gpus"]] == list(GPU_NODES)
    for name in GPU_NODES:
        assert len(nodes[name]["gpus"]) == 8
        assert (nodes[name]["driver"], nodes[name]["upgrade_state"]) == ("575.57.08", "upgrade-done")
        assert nodes[name]["taints"] == ["nvidia.com/gpu=present:NoSchedule"]
    workloads = {pod["name"].rsplit("-", 2)[0] for pod in state["pods"] if pod["gpus"]}
    assert {"vllm-chat", "embeddings"} < workloads
    assert (state["settled"], state["missing"], cluster.violations) == (True, [], [])


# -- faults
def test_an_xid_takes_a_gpu_away_until_the_device_plugin_restarts(cluster):
    def offered():
        return cluster.node("gpu-node-c")["status"]["allocatable"]["nvidia.com/gpu"]

    cluster.break_("xid", "gpu-node-c", xid=48, gpu=3)
    assert cluster.until(lambda: offered() == "7"), offered()
    seen = cluster.seen("gpu-node-c")
    assert [gpu["index"] for gpu in seen["gpus"] if not gpu["healthy"]] == [3]
    assert seen["faults"] == {"xid": {"gpu": 3, "xid": 48}}
    cluster.delete("/sim/faults?node=gpu-node-c")
    assert cluster.seen("gpu-node-c")["faults"] == {}


def test_an_api_error_is_given_as_often_as_asked(cluster):
    cluster.break_("api_error", verb="get", resource="nodes", status=503, times=2, retry_after=1)
    answers = [cluster.api.get(NODE_B) for _ in range(3)]
    assert [answer.status for answer in answers] == [503, 503, 200]
    assert answers[0].headers["Retry-After"] == "1"
    assert answers[0].body["reason"] == "ServiceUnavailable"


def test_faults_are_cleared_together(cluster):
    cluster.break_("api_error", verb="get", resource="nodes", status=500, times=100)
    cluster.break_("weak_nvlink", "gpu-node-a")
    cluster.delete("/sim/faults")
    assert cluster.api.get(NODE_B).status == 200
    assert cluster.seen("gpu-node-a")["faults"] == {}


def test_a_stuck_finalizer_keeps_a_pod_until_it_is_cleared(cluster):
    pod = cluster.api.get(CHAT).items[0]
    path = f"/api/v1/namespaces/inference/pods/{pod['metadata']['name']}"
    cluster.break_("stuck_finalizer", namespace="inference", pod=pod["metadata"]["name"])
    assert cluster.api.get(path).body["metadata"]["finalizers"] == ["simulator.gpuops.io/stuck"]
    cluster.api.delete(path, {"gracePeriodSeconds": 0})
    assert cluster.api.get(path).body["metadata"]["deletionTimestamp"]
    cluster.delete("/sim/faults")
    assert cluster.until(lambda: cluster.api.get(path).status == 404)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("{", "the body is not JSON"),
        ('"xid"', "kind must be one of"),
        ({"kind": "fire"}, "kind must be one of xid, weak_nvlink"),
        ({"kind": "xid", "node": "gpu-node-z"}, "node must be one of cpu-node-1, gpu-node-a"),
        ({"kind": "xid", "node": "gpu-node-a", "gpu": 8}, "gpu-node-a has GPUs 0 to 7, not 8"),
        ({"kind": "stuck_finalizer", "namespace": "inference", "pod": "nobody"}, "no such pod"),
    ],
)
def test_a_wrong_fault_is_refused_with_what_is_allowed(cluster, body, says):
    status, answer = cluster.call("POST", "/sim/faults", body)
    assert status == 400
    assert says in answer["error"]
    assert "weak_nvlink" in answer["kinds"]


def test_clearing_an_unknown_node_is_refused(cluster):
    status, answer = cluster.call("DELETE", "/sim/faults?node=gpu-node-z")
    assert status == 400
    assert "gpu-node-a" in answer["error"]


# -- requests
def test_requests_are_counted_by_agent(cluster):
    agent = {"User-Agent": "counted/1"}
    cluster.api.get(NODE_B, headers=agent)
    cluster.api.call("PATCH", NODE_B + "?dryRun=All", {}, "application/merge-patch+json", headers=agent)
    cluster.api.call("PATCH", NODE_B, {}, "application/merge-patch+json", headers=agent)
    cluster.api.call("DELETE", "/api/v1/nodes/nobody", headers=agent)
    found = cluster.get("/sim/requests")
    assert found["by_agent"]["counted/1"] == {"total": 4, "mutating": 2}
    assert found["total"] == sum(counts["total"] for counts in found["by_agent"].values())
    assert found["mutating"] >= 2


# -- violations
def test_what_must_not_happen_is_found_with_who_did_it(cluster):
    for pod in cluster.api.get(CHAT).items:
        path = f"/api/v1/namespaces/inference/pods/{pod['metadata']['name']}"
        cluster.api.call("DELETE", path, headers={"User-Agent": "careless/1"})
    (found,) = cluster.violations
    assert (found["rule"], found["actor"], found["pdb"]) == ("pdb-broken", "careless/1", "inference/vllm-chat")
    assert cluster.get("/sim/state")["violations"] == 1


def test_evictions_within_the_budget_are_no_violation(cluster):
    first, second = cluster.api.get(CHAT).items
    assert cluster.api.evict(first).status == 201
    assert cluster.api.evict(second).status == 429
    assert cluster.violations == []


def test_an_upgrade_that_nobody_holds_or_proves_is_found(cluster):
    """The GPU operator alone, as a site without the product has it: cordon, new driver, back in service."""
    path = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
    assert cluster.api.merge(path, {"spec": {"driver": {"version": "580.95.05"}}}).status == 200

    def found():
        return [v for v in cluster.violations if v["rule"] == "unproven-in-service"]

    assert cluster.until(found)
    assert found()[0]["actor"] == "gpu-operator"
    assert cluster.seen(found()[0]["node"])["changes"][-1]["to"] == "580.95.05"
    assert "change-under-load" not in {v["rule"] for v in cluster.violations}


# -- events
def test_events_tell_of_nodes_and_violations_and_go_on_after_a_pause(cluster):
    with cluster.events() as events:
        cordon(cluster)
        found = events.until(lambda e: e.data.get("name") == "gpu-node-b" and not e.data["schedulable"])
        assert (found.event, found.data["kind"]) == ("Node", "Node")
    cordon(cluster, False)
    with cluster.events(last=found.id) as events:
        again = events.until(lambda e: e.data.get("name") == "gpu-node-b" and e.data["schedulable"])
        assert int(again.id) > int(found.id)
        for pod in cluster.api.get(CHAT).items:
            cluster.api.delete(f"/api/v1/namespaces/inference/pods/{pod['metadata']['name']}")
        violation = events.until(lambda e: e.event == "Violation")
        assert violation.data["rule"] == "pdb-broken"


def test_what_a_viewer_does_not_show_is_no_event(cluster):
    with cluster.events() as events:
        cluster.api.call("PATCH", NODE_B, {"metadata": {"annotations": {"x": "y"}}}, "application/merge-patch+json")
        cordon(cluster)
        first = events.until(lambda e: e.data.get("name") == "gpu-node-b")
        assert first.data["schedulable"] is False


@pytest.mark.parametrize("last", ["1", "no number"])
def test_a_viewer_that_is_too_late_is_told_to_begin_anew(cluster, last):
    with cluster.events(last=last) as events:
        assert events.until(lambda e: True).event == "Reset"


# -- reset
def test_reset_brings_the_start_state_back_under_the_same_address(cluster):
    before = {node["name"]: node for node in cluster.get("/sim/state")["nodes"]}
    version = cluster.api.get("/api/v1/nodes").body["metadata"]["resourceVersion"]
    cordon(cluster)
    cluster.break_("xid", "gpu-node-a")
    cluster.break_("api_error", verb="list", resource="pods", status=500, times=100)
    for pod in cluster.api.get(CHAT).body.get("items", []):
        cluster.api.delete(f"/api/v1/namespaces/inference/pods/{pod['metadata']['name']}")
    cluster.reset()
    after = {node["name"]: node for node in cluster.get("/sim/state")["nodes"]}
    assert after == before
    assert cluster.get("/sim/state")["settled"] is True
    assert cluster.violations == []
    assert cluster.get("/sim/requests")["total"] == 0
    answer = cluster.api.get(f"/api/v1/nodes?watch=1&timeoutSeconds=2&resourceVersion={version}")
    assert [(event["type"], event["object"]["code"]) for event in answer.body] == [("ERROR", 410)]


def test_reset_ends_watches_and_event_streams(cluster):
    version = cluster.api.get("/api/v1/nodes").body["metadata"]["resourceVersion"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool, cluster.events() as events:
        watch = pool.submit(cluster.api.get, f"/api/v1/nodes?watch=1&timeoutSeconds=25&resourceVersion={version}")
        cordon(cluster)
        events.until(lambda e: e.data.get("name") == "gpu-node-b")
        cluster.reset()
        assert events.until(lambda e: False) is None
        seen = [event["object"]["metadata"]["name"] for event in watch.result(20).body]
    assert "gpu-node-b" in seen


def test_what_ran_before_a_reset_does_not_reach_into_what_comes_after(cluster):
    cluster.break_("xid", "gpu-node-c", gpu=1)
    assert cluster.until(lambda: cluster.node("gpu-node-c")["status"]["allocatable"]["nvidia.com/gpu"] == "7")
    cluster.reset()
    cluster.reset()
    cordon(cluster)
    assert not cluster.until(lambda: cluster.node("gpu-node-c")["status"]["allocatable"]["nvidia.com/gpu"] != "8", 1)


# -- who may ask
@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Host": "127.0.0.1.evil.example:8900"}]
)
def test_a_page_of_another_origin_is_refused(cluster, headers):
    for method, path in (("GET", "/sim/state"), ("POST", "/sim/reset")):
        status, answer = cluster.call(method, path, headers=headers)
        assert (status, answer["error"]) == (403, "/sim answers on this machine only")


def test_what_is_not_there_is_told_with_what_is(cluster):
    status, answer = cluster.call("GET", "/sim/nothing")
    assert status == 404
    assert "GET /sim/violations" in answer["error"]
    assert "POST /sim/faults" in cluster.get("/sim")["paths"]
    assert "/sim/state" in cluster.get("/")


def test_the_kubernetes_api_wants_the_token(cluster):
    assert cluster.call("GET", "/api/v1/nodes")[0] == 401
