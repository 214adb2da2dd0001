# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a drain would meet, said without touching anything: check mode, and drain_info."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import info
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Task
from tests.unit.drain.cluster import Cluster
from tests.unit.drain.driving import PARAMS, Drain, web
from tests.unit.drain.shapes import node, pdb, pod


def test_check_mode_prints_the_verdicts_and_writes_nothing():
    cluster = Cluster(node(cordoned=False), web(1), [pdb(allowed=1)])
    drain = Drain(cluster, check_mode=True)
    assert drain.lines == ["shop/web-0 now: fits budget web (1 allowed)"]
    assert drain.task.changed is True
    assert cluster.evictions == []
    assert drain.result["verdict"] == "now"


def test_check_mode_of_an_empty_node_changes_nothing():
    assert Drain(Cluster(node(), [pod(phase="Succeeded")]), check_mode=True).task.changed is False


class Info(Drain):
    def __init__(self, cluster):
        params = {key: PARAMS[key] for key in info.ARGUMENT_SPEC}
        self.task = Task("drain_info", {**params, "node": "gpu-node-a"}, kube=cluster)
        self.result = info.run(self.task)


def test_info_has_the_numbers():
    result = Info(
        Cluster(node(), [pod("train", labels={}, limits={"nvidia.com/gpu": "8"}, grace=600)], [pdb(allowed=1)])
    ).result
    assert result == {
        "pods": [
            {
                "namespace": "shop",
                "name": "train",
                "uid": "uid-train",
                "owner": {"kind": "ReplicaSet", "name": "web"},
                "verdict": "free",
                "blocked_by": [],
                "sentence": "no budget covers it",
                "grace_s": 600,
                "gpus": 8,
            }
        ],
        "verdict": "free",
        "estimate_s": 600,
        "blockers": [],
        "table": ["shop/train free: no budget covers it"],
    }


@pytest.mark.parametrize(
    ("forbidden", "pods"), [({"poddisruptionbudgets"}, 1), ({"pods"}, 0), ({"pods", "poddisruptionbudgets"}, 0)]
)
def test_info_without_permission_is_unknown_and_never_free(forbidden, pods):
    result = Info(Cluster(node(), web(1), forbidden=forbidden)).result
    assert result["verdict"] == "unknown"
    assert result["estimate_s"] is None
    assert len(result["pods"]) == pods
    assert {what for what in forbidden if any(what in b["reason"] for b in result["blockers"])} == forbidden
