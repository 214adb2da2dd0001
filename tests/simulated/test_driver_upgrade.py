# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver upgrade of one node against a simulated cluster's operator: its real sequence, sick nodes, and kills."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import driver_upgrade
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import operation as drain
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Kube
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import cordon, node_ready
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Task
from tests.simulated.product import NEW, OLD

pytestmark = pytest.mark.scenario("four-h100", speed=100)
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
STATE = "nvidia.com/gpu-driver-upgrade-state"
INITIAL = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
MERGE = "application/merge-patch+json"


class Killed(BaseException):
    """The process dies: nothing of the operation runs after it."""


def task_for(cluster, spec, node, **params):
    values = {name: option.get("default") for name, option in spec.items()}
    values.update({"node": node, "kubeconfig": str(cluster.kubeconfig), **params})
    task = Task("test", values, run="run-1", kube=Kube(values))
    task.lines = []
    task.progress = task.lines.append
    return task


def close(cluster, node):
    """Held and drained, as the roles leave it to the upgrade."""
    cordon.run(task_for(cluster, cordon.ARGUMENT_SPEC, node, change="driver"))
    drain.run(task_for(cluster, drain.ARGUMENT_SPEC, node))


def upgrade(cluster, node, **params):
    task = task_for(cluster, driver_upgrade.ARGUMENT_SPEC, node, **{"version": NEW, "timeout_s": 90, **params})
    return task, driver_upgrade.run(task)


def failing(cluster, node, **params):
    with pytest.raises(Failed) as failed:
        upgrade(cluster, node, **params)
    return failed.value


def is_closed(cluster, node):
    obj = cluster.node(node)
    return obj["spec"].get("unschedulable") is True and "lifecycle.gpuops.io/hold" in obj["metadata"]["annotations"]


def test_two_nodes_one_after_another_and_the_others_wait(cluster, product):
    for node in ("gpu-node-a", "gpu-node-b"):
        close(cluster, node)
        task, result = upgrade(cluster, node)
        assert task.changed is True
        assert result["version"] == {"before": OLD, "after": NEW}
        assert is_closed(cluster, node)
        assert INITIAL not in cluster.node(node)["metadata"]["annotations"]
        assert SKIP not in product.labels(node)
        ready = task_for(cluster, node_ready.ARGUMENT_SPEC, node, driver_version=NEW, expected_gpus=8, timeout_s=30)
        assert node_ready.run(ready)["ready"] is True
    assert result["left_skipped"] == ["gpu-node-c", "gpu-node-d"]
    for node in result["left_skipped"]:
        assert (product.driver(node), product.labels(node)[SKIP]) == (OLD, "true")
    again, _result = upgrade(cluster, "gpu-node-a")
    assert again.changed is False
    assert cluster.violations == []


def test_a_validator_that_never_is_ready(cluster, product):
    cluster.break_("validator_stuck", "gpu-node-a")
    close(cluster, "gpu-node-a")
    failed = failing(cluster, "gpu-node-a")
    assert "validator" in failed.message
    assert failed.result["version"]["before"] == OLD
    assert is_closed(cluster, "gpu-node-a")
    assert cluster.violations == []


def test_a_driver_in_a_crash_loop_and_the_way_back(cluster, product):
    cluster.break_("driver_crashloop", "gpu-node-a")
    close(cluster, "gpu-node-a")
    failed = failing(cluster, "gpu-node-a")
    assert "failed to load" in failed.message
    assert is_closed(cluster, "gpu-node-a")
    cluster.delete("/sim/faults")
    _task, result = upgrade(cluster, "gpu-node-a", version=OLD)
    assert product.driver("gpu-node-a") == OLD
    assert is_closed(cluster, "gpu-node-a")
    assert cluster.violations == []


def test_a_taint_that_the_driver_does_not_tolerate_is_named(cluster, product, monkeypatch):
    monkeypatch.setattr("ansible_collections.gpuops.lifecycle.plugins.module_utils.change.rollout.SETTLE_S", 1)
    close(cluster, "gpu-node-a")
    taints = [*cluster.node("gpu-node-c")["spec"]["taints"], {"key": "other.io/out", "effect": "NoSchedule"}]
    assert cluster.api.call("PATCH", "/api/v1/nodes/gpu-node-c", {"spec": {"taints": taints}}, MERGE).status == 200
    path = "/apis/apps/v1/namespaces/gpu-operator/daemonsets/nvidia-driver-daemonset"
    assert cluster.until(lambda: cluster.api.get(path).body["status"]["desiredNumberScheduled"] == 3)
    failed = failing(cluster, "gpu-node-a")
    assert "gpu-node-c has taint other.io/out:NoSchedule" in failed.message
    assert all(SKIP not in product.labels(node) for node in ("gpu-node-a", "gpu-node-b"))
    assert cluster.violations == []


@pytest.mark.parametrize("at", range(1, 8))
def test_killed_at_a_write_it_is_gone_on_with(cluster, product, monkeypatch, at):
    close(cluster, "gpu-node-a")
    written, patch = [], Kube.patch

    def dying(self, path, body, **query):
        answer = patch(self, path, body, **query)
        if "leases" not in path:
            written.append(path)
            if len(written) == at:
                raise Killed
        return answer

    monkeypatch.setattr(Kube, "patch", dying)
    try:
        upgrade(cluster, "gpu-node-a")
    except Killed:
        assert is_closed(cluster, "gpu-node-a")
    monkeypatch.setattr(Kube, "patch", patch)
    upgrade(cluster, "gpu-node-a")
    assert product.driver("gpu-node-a") == NEW
    assert is_closed(cluster, "gpu-node-a")
    assert [product.driver(f"gpu-node-{name}") for name in "bcd"] == [OLD] * 3
    assert cluster.violations == []
