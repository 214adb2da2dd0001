# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Twelve checks, each able to say no and each able to say that it cannot tell."""

from __future__ import annotations

import copy

import pytest
from nodes import GPU_TAINT, TAINT, UNSCHEDULABLE, node

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import operands, readiness

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
        (label("gpu.count", None), "gpus"),
        (label("gpu.count", "eight"), "gpus"),
        (label("gpu.replicas", "4"), "gpus"),
        (label("gpu.replicas", "many"), "gpus"),
        (lambda o: o["status"].update(capacity={"nvidia.com/gpu": "7"}, allocatable={"nvidia.com/gpu": "7"}), "gpus"),
        (lambda o: o["metadata"].update(annotations={"lifecycle.gpuops.io/skip-set-by": "{}"}), "upgrade"),
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


def gpus(labels, offered, expected=None):
    obj = ready_node()
    obj["metadata"]["labels"].update({f"nvidia.com/{key}": value for key, value in labels.items()})
    resources = {f"nvidia.com/{key}": str(count) for key, count in offered.items()}
    obj["status"].update(capacity=resources, allocatable=resources)
    found = readiness.checks(obj, [driver(), validator()], REVISIONS, expected)
    return next(check for check in found if check.name == "gpus")


SLICED = {"mig.config": "all-1g.10gb", "gpu.count": "56"}
MIXED = {"mig.config": "custom", "mig-1g.10gb.count": "14", "mig-3g.40gb.count": "4", "mig-1g.10gb.replicas": "1"}


@pytest.mark.parametrize(
    ("labels", "offered", "expected", "ok"),
    [
        ({}, {"gpu": 8}, 8, True),
        ({}, {"gpu": 8}, None, True),
        ({}, {"gpu": 8}, 4, False),
        ({}, {"gpu": 7}, None, False),
        ({}, {}, None, None),
        ({"gpu.replicas": "4"}, {"gpu": 32}, 8, True),
        ({"gpu.replicas": "4"}, {"gpu": 32}, 4, False),
        (SLICED, {"gpu": 56}, 8, True),
        (SLICED, {"gpu": 49}, 8, False),
        (MIXED, {"mig-1g.10gb": 14, "mig-3g.40gb": 4}, 8, True),
        (MIXED, {"mig-1g.10gb": 14, "mig-3g.40gb": 3}, 8, False),
        (MIXED, {"mig-1g.10gb": 14}, 8, None),
        ({**MIXED, "mig-3g.40gb.replicas": "2"}, {"mig-1g.10gb": 14, "mig-3g.40gb": 8}, 8, True),
    ],
)
def test_gpus_offered_found_and_expected(labels, offered, expected, ok):
    assert gpus(labels, offered, expected).ok is ok


@pytest.mark.parametrize(
    ("after", "fails"),
    [
        (BEFORE, []),
        (LATER, []),
        ("2026-12-01T10:02:00Z", ["validator", "feature_discovery"]),
    ],
)
def test_nothing_older_than_a_reboot_counts(after, fails):
    at = operands.parse_time(after)
    found = readiness.checks(ready_node(), [driver(), validator()], REVISIONS, after=at)
    assert [check.name for check in found if not check.passes] == fails


def test_after_a_reboot_a_driver_on_the_host_is_judged_by_its_validator():
    obj = ready_node()
    obj["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = "pre-installed"
    late = operands.parse_time("2026-12-01T10:02:00Z")
    found = readiness.checks(obj, [validator()], [], after=late)
    assert [check.name for check in found if not check.passes] == ["validator", "feature_discovery"]
    found = readiness.checks(obj, [validator(at=None)], [], after=late)
    assert [(c.name, c.ok) for c in found if not c.passes][0] == ("validator", None)


def test_our_own_hold_is_no_hindrance():
    obj = ready_node()
    obj["spec"].update(unschedulable=True, taints=[GPU_TAINT, TAINT, UNSCHEDULABLE])
    assert failing(obj, [driver(), validator()]) == []


def test_what_does_not_apply_does_not_stand_in_the_way():
    obj = ready_node()
    for key in ("mig.config", "mig.config.state"):
        del obj["metadata"]["labels"][f"nvidia.com/{key}"]
    obj["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = "pre-installed"
    assert failing(obj, [validator()], [], version=None) == []
