# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The diagnostics as Jobs on a held node of a simulated cluster."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Kube
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Task
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import all_reduce_perf, dcgmi_diag
from tests.simulated.serving import ROOT

NODE, TAINT = "gpu-node-a", {"key": "lifecycle.gpuops.io/hold", "value": "validate", "effect": "NoSchedule"}
JOBS = "/apis/batch/v1/namespaces/gpuops-system/jobs"
pytestmark = pytest.mark.scenario(ROOT / "tests/simulated/one-h100.yml", speed=100)


@pytest.fixture
def held(cluster, product):
    """The cluster, with its node held as the product holds it."""
    product.cordon(NODE)
    taints = [*cluster.node(NODE)["spec"].get("taints", []), TAINT]
    cluster.api.call("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": taints}}, "application/merge-patch+json")
    return cluster


def task_for(operation, kubeconfig, run="run-1", **params):
    values = {name: option.get("default") for name, option in operation.ARGUMENT_SPEC.items()}
    values.update(node=NODE, kubeconfig=str(kubeconfig), fail_on_verdict=False, **params)
    said = []
    task = Task("validate", values, run=run, kube=Kube(values), progress=said.append, warn=said.append)
    task.said = said
    return task


def diagnose(cluster, **params):
    task = task_for(dcgmi_diag, cluster.kubeconfig, **{"expected_gpus": 8, "level": 2, **params})
    return dcgmi_diag.run(task)


def measure(cluster, **params):
    values = {"gpus": 8, "min_busbw_gbps": 430.0, "image": "nccl", "min_bytes": "1G", **params}
    return all_reduce_perf.run(task_for(all_reduce_perf, cluster.kubeconfig, **values))


def test_a_healthy_node_passes_both_and_nothing_is_left(held):
    diag = diagnose(held, level=3)
    assert (diag["verdict"], diag["rc"], diag["driver_version"]) == ("pass", 0, "575.57.08")
    serials = [gpu["serial"] for gpu in diag["gpus"]]
    assert len(set(serials)) == 8
    assert diagnose(held, expected_serials=serials, iterations=2)["verdict"] == "pass"
    bandwidth = measure(held, env={"NCCL_DEBUG": "WARN"})
    assert (bandwidth["verdict"], bandwidth["ranks"]) == ("pass", 8)
    assert 430 < bandwidth["busbw_gbps"] < 500
    assert [row["bytes"] for row in bandwidth["curve"]] == [2**30, 2**31, 2**32, 2**33]
    assert held.api.get(JOBS).items == []
    assert TAINT in held.node(NODE)["spec"]["taints"]
    assert held.violations == []


@pytest.mark.parametrize(
    ("fault", "fields", "check", "word", "cause"),
    [
        ("weak_nvlink", {}, measure, "fail", "bandwidth"),
        ("memory_fail", {"gpu": 5}, diagnose, "fail", "hardware"),
        ("hung_diag", {}, lambda cluster: diagnose(cluster, timeout_s=120), "unknown", "timeout"),
        ("hung_diag", {}, lambda cluster: measure(cluster, timeout_s=120), "unknown", "timeout"),
        ("xid", {"xid": 79, "gpu": 2}, lambda cluster: diagnose(cluster, level=3), "fail", None),
    ],
    ids=["weak_nvlink", "memory_fail", "hung diagnostic", "hung bandwidth", "xid"],
)
def test_a_fault_is_found(held, fault, fields, check, word, cause):
    held.break_(fault, NODE, **fields)
    result = check(held)
    assert result["verdict"] == word, result
    assert cause in (None, result["cause"]), result
    assert held.api.get(JOBS).items == []


def test_another_number_of_gpus_than_expected_is_no_pass(held):
    assert diagnose(held, expected_gpus=7)["cause"] == "expectation"


@pytest.mark.parametrize("verb", ["create", "list", "get"])
def test_an_api_that_is_away_for_a_moment_costs_nothing(held, verb):
    resource = {"create": "jobs", "list": "pods", "get": "pods"}[verb]
    held.break_("api_error", verb=verb, resource=resource, status=503, times=1)
    assert diagnose(held)["verdict"] == "pass"


def test_a_missing_permission_is_named(held):
    held.break_("api_error", verb="create", resource="jobs", status=403, times=1)
    with pytest.raises(Failed, match="POST /apis/batch/v1/namespaces/gpuops-system/jobs.* Role gpuops-run"):
        diagnose(held)


def test_a_run_that_was_killed_is_gone_on_with(held):
    """The diagnostic of a killed run goes on; the next run waits for the same Job instead of starting another."""
    params = {"expected_gpus": 8, "level": 4, "lock_s": 1}
    code = (
        "import json, sys; from tests.simulated import test_validate as t\n"
        "task = t.task_for(t.dcgmi_diag, sys.argv[1], run='killed', **json.loads(sys.argv[2]))\n"
        "t.dcgmi_diag.run(task)"
    )
    path = f"{ROOT / '.collections'}:{ROOT}"
    first = subprocess.Popen(
        [sys.executable, "-c", code, str(held.kubeconfig), json.dumps(params)],
        cwd=ROOT,
        env={**held.environment, "PYTHONPATH": path},
    )
    try:
        assert held.until(lambda: held.api.get(JOBS).items)
    finally:
        first.kill()
        first.wait()
    (left,) = held.api.get(JOBS).items
    task = task_for(dcgmi_diag, held.kubeconfig, **params)
    assert dcgmi_diag.run(task)["verdict"] == "pass"
    assert any(f"goes on with the Job {left['metadata']['name']}" in line for line in task.said), task.said
    assert held.api.get(JOBS).items == []
