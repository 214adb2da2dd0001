# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Twelve checks, each able to say no and each able to say that it cannot tell."""

from __future__ import annotations

import copy

import pytest
from nodes import GPU_TAINT, node

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import readiness

BEFORE, START, LATER = "2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z", "2026-12-01T10:01:00Z"
EPOCH = {"before": "1796115600", "later": "1796119260"}
REF = {"kind": "DaemonSet", "uid": "ds", "controller": True, "name": "driver"}
REVISIONS = [
    {
        "metadata": {"name": "old", "labels": {"controller-revision-hash": "h1"}, "ownerReferences": [REF]},
        "revision": 1,
    },
    {
        "metadata": {"name": "new", "labels": {"controller-revision-hash": "h2"}, "ownerReferences": [REF]},
        "revision": 2,
    },
]


def pod(name, labels, ready=True, at=START, ref=None):
    return {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [ref or REF]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": at}],
            "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": at}}}],
        },
    }


def driver(**more):
    return pod("driver", {"app.kubernetes.io/component": "nvidia-driver", "controller-revision-hash": "h2"}, **more)


def validator(**more):
    return pod("validator", {"app": "nvidia-operator-validator"}, **{"at": LATER, **more})


def ready_node():
    obj = node(driver="580.95.05")
    obj["metadata"]["labels"].update(
        {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.deploy.driver": "true",
            "nvidia.com/gfd.timestamp": EPOCH["later"],
            "nvidia.com/mig.config": "all-disabled",
            "nvidia.com/mig.config.state": "success",
            "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        }
    )
    obj["status"].update(capacity={"nvidia.com/gpu": "8"}, allocatable={"nvidia.com/gpu": "8"})
    return obj


def failing(obj, pods, revisions=REVISIONS, gpus=8, version="580.95.05"):
    return [c.name for c in readiness.checks(obj, pods, revisions, gpus, version) if not c.passes]


def test_a_ready_node_passes_every_check():
    found = readiness.checks(ready_node(), [driver(), validator()], REVISIONS, 8, "580.95.05")
    assert len(found) == 12
    assert all(check.passes for check in found)


def label(name, value):
    def edit(obj):
        if value is None:
            del obj["metadata"]["labels"][f"nvidia.com/{name}"]
        else:
            obj["metadata"]["labels"][f"nvidia.com/{name}"] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "fails"),
    [
        (lambda o: o["status"].update(conditions=[]), "node"),
        (lambda o: o["spec"].update(taints=[GPU_TAINT, {"key": "x/y", "effect": "NoExecute"}]), "taints"),
        (label("gpu.present", None), "gpu_present"),
        (label("gpu.present", "false"), "gpu_present"),
        (label("gpu.deploy.dcgm", "paused-for-driver-upgrade"), "operands"),
        (label("gpu.deploy.driver", None), "operands"),
        (label("gfd.timestamp", EPOCH["before"]), "feature_discovery"),
        (label("gfd.timestamp", None), "feature_discovery"),
        (label("gfd.timestamp", "soon"), "feature_discovery"),
        (
            lambda o: o["metadata"]["labels"].update({"nvidia.com/cuda.driver-version.full": "575.57.08"}),
            "driver_version",
        ),
        (lambda o: o["status"].update(allocatable={"nvidia.com/gpu": "7"}), "gpus"),
        (lambda o: o["status"].update(allocatable={}), "gpus"),
        (label("gpu.count", "7"), "gpus"),
        (label("mig.config.state", None), "mig"),
        (label("mig.config.state", "pending"), "mig"),
        (
            lambda o: o["metadata"]["labels"].update({"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}),
            "upgrade",
        ),
        (label("gpu.clique", ""), "fabric"),
    ],
)
def test_each_check_can_say_no(edit, fails):
    obj = copy.deepcopy(ready_node())
    edit(obj)
    assert failing(obj, [driver(), validator()]) == [fails]


@pytest.mark.parametrize(
    ("pods", "revisions", "fails"),
    [
        ([validator()], REVISIONS, ["driver_pod"]),
        ([driver(ready=False), validator()], REVISIONS, ["driver_pod"]),
        ([driver(), validator()], REVISIONS[:1], ["driver_pod"]),
        ([driver(), validator()], [], ["driver_pod"]),
        ([driver()], REVISIONS, ["validator"]),
        ([driver(), validator(ready=False)], REVISIONS, ["validator"]),
        ([driver(), validator(at=BEFORE)], REVISIONS, ["validator"]),
        ([driver(), validator(at=None)], REVISIONS, ["validator"]),
        ([driver(at=None), validator()], REVISIONS, ["validator", "feature_discovery"]),
    ],
)
def test_the_pods_of_the_operator(pods, revisions, fails):
    assert failing(ready_node(), pods, revisions) == fails


def test_what_does_not_apply_does_not_stand_in_the_way():
    obj = ready_node()
    for key in ("mig.config", "mig.config.state"):
        del obj["metadata"]["labels"][f"nvidia.com/{key}"]
    obj["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = "pre-installed"
    assert failing(obj, [validator()], [], version=None) == []
