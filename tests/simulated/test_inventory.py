# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU nodes as inventory."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.simulated.serving import GPU_NODES, ROOT

pytestmark = pytest.mark.scenario("four-h100", speed=60)
PLUGIN = "plugin: gpuops.lifecycle.gpu_nodes\n"


def trusting(value):
    """Text from the cluster comes marked as unsafe: Ansible will not evaluate it as a template."""
    return value["__ansible_unsafe"] if set(value) == {"__ansible_unsafe"} else value


@pytest.fixture
def inventory(product, tmp_path):
    def listed(text="", **environment):
        file = tmp_path / "gpu_nodes.yml"
        file.write_text(PLUGIN + text)
        command = ["ansible-inventory", "-i", str(file), "--list"]
        run = subprocess.run(
            command,
            cwd=ROOT,
            env=product.environment(**environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return json.loads(run.stdout, object_hook=trusting)

    return listed


def test_groups_and_variables(product, inventory):
    product.cordon("gpu-node-b")
    found = inventory()
    assert sorted(found["gpu_nodes"]["hosts"]) == list(GPU_NODES)
    assert sorted(found["product_NVIDIA_H100_80GB_HBM3"]["hosts"]) == list(GPU_NODES)
    a, b = (found["_meta"]["hostvars"][name] for name in GPU_NODES[:2])
    assert (a["gpuops_driver"], a["gpuops_gpu_count"], a["gpuops_ready"]) == ("575.57.08", 8, True)
    assert (a["gpuops_schedulable"], b["gpuops_schedulable"]) == (True, False)
    assert a["gpuops_node_uid"]
    assert a["gpuops_labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"


def test_stage_and_qualification_become_groups(product, inventory):
    labels = {"lifecycle.gpuops.io/stage": "upgrading", "lifecycle.gpuops.io/qualification": "failed"}
    body = {"metadata": {"labels": labels}}
    product.cluster.api.call("PATCH", "/api/v1/nodes/gpu-node-c", body, "application/merge-patch+json")
    found = inventory("pool_label: topology.kubernetes.io/zone\n")
    assert found["stage_upgrading"]["hosts"] == found["qualification_failed"]["hosts"] == ["gpu-node-c"]
    assert sorted(found["pool_zone_1"]["hosts"]) == list(GPU_NODES)


def test_constructed_groups(product, inventory):
    text = """
compose:
  where: gpuops_labels['topology.kubernetes.io/zone']
groups:
  hoppers: "'H100' in gpuops_product"
keyed_groups:
  - key: gpuops_driver
    prefix: driver
"""
    found = inventory(text)
    assert sorted(found["hoppers"]["hosts"]) == sorted(found["driver_575_57_08"]["hosts"]) == list(GPU_NODES)
    assert found["_meta"]["hostvars"]["gpu-node-a"]["where"] == "zone-1"


def test_the_cache_answers_while_the_cluster_is_away(product, inventory, tmp_path):
    cached = f"cache: true\ncache_plugin: ansible.builtin.jsonfile\ncache_connection: {tmp_path / 'cache'}\n"
    assert sorted(inventory(cached)["gpu_nodes"]["hosts"]) == list(GPU_NODES)
    product.cluster.break_("api_error", verb="list", resource="nodes", status=500, times=100)
    assert sorted(inventory(cached)["gpu_nodes"]["hosts"]) == list(GPU_NODES)


def test_only_what_the_selector_chooses(inventory):
    assert inventory("label_selector: kubernetes.io/hostname=gpu-node-d\n")["gpu_nodes"]["hosts"] == ["gpu-node-d"]
