# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong before anything is done: one paragraph that names the thing and the next command, and nothing changed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from tests.simulated.product import Product, last_lines
from tests.simulated.serving import ROOT

pytestmark = pytest.mark.scenario("four-h100", speed=100)


def writes(cluster):
    by_agent = cluster.get("/sim/requests")["by_agent"]
    return sum(counts["mutating"] for agent, counts in by_agent.items() if "gpuops-lifecycle" in agent)


def test_an_unknown_node(cluster, product, tmp_path):
    demo = yaml.safe_load((ROOT / "inventories/demo/group_vars/all.yml").read_text())
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"gpu-node-x": {}}, "vars": demo}}))
    run = product.upgrade(inventory=str(inventory))
    assert run.returncode != 0
    assert "There is no node gpu-node-x" in last_lines(run)
    assert "kubectl get nodes" in last_lines(run)
    assert writes(cluster) == 0


@pytest.mark.parametrize(("verb", "resource"), [("patch", "nodes"), ("create", "leases"), ("list", "nodes")])
def test_no_permission(cluster, product, verb, resource):
    cluster.break_("api_error", verb=verb, resource=resource, status=403, times=1000)
    run = product.upgrade("--limit", "gpu-node-a") if resource != "nodes" or verb != "list" else product.upgrade()
    assert run.returncode != 0
    assert "lacks this permission" in last_lines(run)
    assert "gpuops.lifecycle.install" in last_lines(run)
    assert product.in_service("gpu-node-a")
    assert cluster.violations == []


def test_an_eviction_without_permission_leaves_the_node_held(cluster, product):
    cluster.break_("api_error", verb="create", resource="pods/eviction", status=403, times=1000)
    pods = cluster.api.get("/api/v1/namespaces/inference/pods").body["items"]
    where = next(p["spec"]["nodeName"] for p in pods)
    run = product.upgrade("--limit", where)
    assert run.returncode != 0
    assert where in last_lines(run)
    assert not product.in_service(where)
    assert cluster.violations == []


def test_records_are_not_installed(cluster):
    product = Product(cluster)
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderecords.lifecycle.gpuops.io"
    assert cluster.api.call("DELETE", crd).status == 200
    run = product.upgrade("--limit", "gpu-node-a")
    assert run.returncode != 0
    assert "gpuops.lifecycle.install" in last_lines(run)
    assert "Nothing was changed" in last_lines(run)
    assert writes(cluster) == 0


def test_the_api_cannot_be_reached(cluster, product, tmp_path):
    dead = tmp_path / "dead"
    dead.write_text(re.sub(r"https://127.0.0.1:\d+", "https://127.0.0.1:9", cluster.kubeconfig.read_text()))
    run = product.upgrade(K8S_AUTH_KUBECONFIG=str(dead))
    assert run.returncode != 0
    assert "https://127.0.0.1:9" in last_lines(run)
    assert "kubectl cluster-info" in last_lines(run)


def test_the_kubeconfig_is_missing(product):
    run = product.upgrade(K8S_AUTH_KUBECONFIG="/no/such/kubeconfig")
    assert run.returncode != 0
    assert "There is no kubeconfig at /no/such/kubeconfig" in last_lines(run)
    assert "Nothing was changed" in last_lines(run)


def test_the_kubeconfig_is_broken(product, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("{{{")
    run = product.upgrade(K8S_AUTH_KUBECONFIG=str(broken))
    assert run.returncode != 0
    assert f"{broken} cannot be used" in last_lines(run)


def test_the_demo_inventory_refuses_a_cluster_that_is_not_the_simulator(cluster, product, tmp_path):
    inventory = tmp_path / "gpu_nodes.yml"
    inventory.write_text("plugin: gpuops.lifecycle.gpu_nodes\nserver_version_must_contain: another\n")
    run = product.playbook("explain", inventory=str(inventory))
    assert run.returncode != 0
    assert "v1.36.3+simulator" in last_lines(run)


@pytest.mark.parametrize("version", ["", "580", "latest", "580.95.05; rm -rf /"])
def test_a_version_that_is_none(cluster, product, version):
    run = product.playbook("upgrade", "-e", "gpuops_change=driver", "-e", f'{{"gpuops_driver_version": "{version}"}}')
    assert run.returncode != 0
    assert "-e gpuops_driver_version=580.95.05" in last_lines(run)
    assert writes(cluster) == 0


@pytest.mark.scenario("four-h100", speed=15)
def test_two_runs_on_one_node(cluster, product):
    first = product.start_upgrade("--limit", "gpu-node-a")
    leases = "/apis/coordination.k8s.io/v1/namespaces/gpuops-system/leases"

    def holders():
        return [
            i["spec"].get("holderIdentity")
            for i in cluster.api.get(leases).items
            if i["metadata"]["name"].startswith("node-")
        ]

    assert cluster.until(holders)
    # The door is loaded in the controller's parent process, so that all its workers are one run.
    assert f"-{first.pid}-" in holders()[0]
    second = product.upgrade("--limit", "gpu-node-a")
    assert first.wait(180) == 0
    assert second.returncode != 0
    assert "is being worked on by run" in last_lines(second)
    assert product.is_upgraded("gpu-node-a")
    assert cluster.violations == []


def test_the_budget_of_the_pool_is_kept(cluster, product):
    for name in ("gpu-node-a", "gpu-node-b"):
        product.cordon(name)
    run = product.upgrade()
    assert run.returncode != 0
    assert "may not be taken out of pool" in last_lines(run)
    assert "gpu-node-a (cordoned by somebody else)" in last_lines(run)
    assert product.in_service("gpu-node-c")
    assert cluster.violations == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nodes: []", "nodes is empty"),
        ("nodes: [{name: a, gpus: many}]", "nodes[0].gpus"),
        ("nodes: [{name: a}]\nworlds: 1", "worlds"),
        ("{", "YAML"),
        ("nodes: [{name: a}]\noperator: {speed: 1}", "operator has an unknown key"),
        ("nodes: [{name: a}]\nworkloads: [{kind: Pod}]", "workloads[0]"),
    ],
)
def test_a_malformed_scenario(tmp_path, text, says):
    scenario = tmp_path / "mine.yml"
    scenario.write_text(text)
    command = [sys.executable, "-m", "simulator", "serve", "--port", "0", "--scenario", str(scenario)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert says in run.stderr
    assert str(scenario) in run.stderr
    assert "Traceback" not in run.stderr
