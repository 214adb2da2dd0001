# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rolling upgrade by the real playbook: what a user is promised."""

from __future__ import annotations

import re

import pytest

from tests.simulated.product import NEW, OLD, Product, last_lines
from tests.simulated.serving import GPU_NODES

pytestmark = pytest.mark.scenario("four-h100", speed=100)


def recap(output):
    """{host: {"ok": 1, "changed": 0, …}}"""
    found = {}
    for line in output.split("PLAY RECAP")[-1].splitlines():
        if match := re.match(r"(\S+)\s+:\s+(ok=.*)", line):
            found[match[1]] = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", match[2])}
    return found


def test_four_nodes_are_upgraded_one_after_another_and_a_second_run_changes_nothing(cluster):
    product = Product(cluster)
    installed = product.playbook("install")
    assert installed.returncode == 0, installed.stdout
    run = product.upgrade()
    assert run.returncode == 0, run.stdout
    for name in GPU_NODES:
        assert product.is_upgraded(name)
        (record,) = product.records(name)
        assert record["spec"]["verdict"] == "pass"
        assert [record["spec"]["change"][key] for key in ("event", "from", "to")] == ["driver", OLD, NEW]
        assert record["status"]["release"]["checks"]["released"] is True
        assert product.labels(name)["lifecycle.gpuops.io/qualification"] == "qualified"
    assert cluster.violations == []
    again = product.upgrade()
    assert again.returncode == 0
    assert {host: counts["changed"] for host, counts in recap(again.stdout).items()} == dict.fromkeys(
        (*GPU_NODES, "localhost"), 0
    )
    assert all(len(product.records(name)) == 1 for name in GPU_NODES)
    training = cluster.get("/sim/state")["trainings"]["llama-finetune"]
    assert training["resumed"] >= 1
    assert training["lost_steps"] == 0


def test_a_failed_validation_keeps_the_node_and_stops_the_run(cluster, product):
    cluster.break_("weak_nvlink", "gpu-node-c")
    run = product.upgrade()
    assert run.returncode != 0
    for part in ("gpu-node-c", "below 430 GB/s", "gpuops_retry_failed=true"):
        assert part in last_lines(run)
    assert not product.in_service("gpu-node-c")
    assert product.records("gpu-node-c")[-1]["spec"]["verdict"] == "fail"
    assert (product.driver("gpu-node-d"), product.in_service("gpu-node-d")) == (OLD, True)
    assert all(map(product.is_upgraded, ("gpu-node-a", "gpu-node-b")))
    assert cluster.violations == []
    refused = product.upgrade()
    assert refused.returncode != 0
    assert "Nothing was changed" in refused.stdout
    assert not product.in_service("gpu-node-c")
    explained = product.playbook("explain", "--limit", "gpu-node-c")
    assert "below 430 GB/s" in " ".join(explained.stdout.split())
    cluster.delete("/sim/faults")
    repaired = product.upgrade("-e", "gpuops_retry_failed=true")
    assert repaired.returncode == 0, repaired.stdout
    assert all(map(product.is_upgraded, GPU_NODES))
    assert [r["spec"]["verdict"] for r in product.records("gpu-node-c")] == ["fail", "pass"]
    assert cluster.violations == []


def test_check_mode_plans_every_pod_and_writes_nothing(cluster, product):
    run = product.upgrade("--check")
    assert run.returncode == 0, run.stdout
    by_agent = cluster.get("/sim/requests")["by_agent"]
    ours = [counts for agent, counts in by_agent.items() if "gpuops-lifecycle" in agent]
    assert ours
    assert all(counts["mutating"] == 0 for counts in ours)
    for name in GPU_NODES:
        for pod in cluster.pods_on(name):
            assert f"{pod['metadata']['namespace']}/{pod['metadata']['name']} " in run.stdout
        assert product.driver(name) == OLD
    assert f"{OLD} -> {NEW}" in run.stdout


def test_a_cordon_by_hand_survives_and_its_node_is_left_alone(cluster, product):
    product.cordon("gpu-node-b")
    run = product.upgrade()
    assert run.returncode == 0, run.stdout
    assert cluster.node("gpu-node-b")["spec"]["unschedulable"] is True
    assert product.driver("gpu-node-b") == OLD
    assert "left alone" in run.stdout
    assert all(map(product.is_upgraded, ("gpu-node-a", "gpu-node-c", "gpu-node-d")))
    assert cluster.violations == []
    asked = product.upgrade("-e", "gpuops_take_cordoned=true")
    assert asked.returncode == 0, asked.stdout
    assert product.driver("gpu-node-b") == NEW
    assert cluster.node("gpu-node-b")["spec"]["unschedulable"] is True
    assert cluster.violations == []


@pytest.mark.scenario("four-h100-untolerated", speed=100)
def test_operands_that_do_not_tolerate_the_taint_are_not_kept_off(cluster, product):
    run = product.upgrade("--limit", "gpu-node-a")
    assert run.returncode == 0, run.stdout
    assert "cordon and annotation only" in run.stdout
    assert product.is_upgraded("gpu-node-a")
    assert product.driver("gpu-node-b") == OLD
    assert cluster.violations == []


FAULTS = [
    ("hung_diag", ["-e", "gpuops_diag_timeout_s=300"], "did not pass its validation (unknown)"),
    ("memory_fail", [], "memory failed on GPU 0"),
    ("validator_stuck", [], "validator"),
    ("driver_crashloop", [], "failed to load"),
    ("no_return", ["-e", "gpuops_upgrade_timeout_s=20"], "did not end within 20 s"),
]


@pytest.mark.parametrize(("kind", "more", "says"), FAULTS)
def test_a_sick_node_stays_held_with_its_reason(cluster, product, kind, more, says):
    cluster.break_(kind, "gpu-node-a")
    run = product.upgrade("--limit", "gpu-node-a", *more)
    assert run.returncode != 0
    assert says in last_lines(run)
    assert not product.in_service("gpu-node-a")
    assert all(record["spec"]["verdict"] != "pass" for record in product.records("gpu-node-a"))
    assert cluster.violations == []


def test_a_pod_that_never_goes_ends_the_drain_at_its_deadline(cluster, product):
    pods = cluster.api.get("/api/v1/namespaces/inference/pods").body["items"]
    pod = next(p for p in pods if "vllm" in p["metadata"]["name"])
    name, where = pod["metadata"]["name"], pod["spec"]["nodeName"]
    cluster.break_("stuck_finalizer", namespace="inference", pod=name)
    run = product.upgrade("--limit", where, "-e", "gpuops_drain_timeout_s=8")
    assert run.returncode != 0
    assert name in last_lines(run)
    assert "finalizer" in last_lines(run)
    assert product.driver(where) == OLD
    assert not product.in_service(where)
    assert cluster.violations == []


API_ERRORS = [
    ("patch", "nodes", 503),
    ("create", "pods/eviction", 500),
    ("create", "jobs", 500),
    ("get", "pods/log", 500),
    ("list", "pods", 429),
    ("patch", "leases", 500),
    ("create", "noderecords", 503),
]


@pytest.mark.parametrize(("verb", "resource", "status"), API_ERRORS)
def test_a_passing_api_failure_loses_nothing(cluster, product, verb, resource, status):
    """Either the run gets over it, or it fails and the same command finishes it."""
    cluster.break_("api_error", verb=verb, resource=resource, status=status, times=2)
    for _attempt in range(3):
        run = product.upgrade("--limit", "gpu-node-d")
        if run.returncode == 0:
            break
    assert run.returncode == 0, run.stdout
    assert product.is_upgraded("gpu-node-d")
    assert cluster.violations == []
