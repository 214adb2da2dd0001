# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which pods a drain touches at all. T numbers: cases from the issue trackers of kubectl and other drain tools."""

from __future__ import annotations

import datetime

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import pods
from tests.unit.drain.shapes import pod

NOW = datetime.datetime(2026, 12, 1, 12, 0, 0, tzinfo=datetime.timezone.utc)
DISK = [{"name": "scratch", "emptyDir": {}}]
SHM = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
EXISTING = {("shop", "agent")}
DAEMON = {"owner": "DaemonSet/agent"}
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}, "owner": "Node/gpu-node-a", "api": "v1"}

# (case, pod, options, action, options asked for)
CASES = [
    ("managed pod", pod(), {}, "evict", ()),
    ("mirror pod", pod(**MIRROR), {}, "skip", ()),
    ("daemonset pod", pod(**DAEMON), {}, "skip", ()),
    ("T34 daemonset pod with emptyDir is not evicted", pod(volumes=DISK, **DAEMON), {}, "skip", ()),
    ("T34 nor with the flag", pod(volumes=DISK, **DAEMON), {"delete_emptydir_data": True}, "skip", ()),
    (
        "DaemonSet of another API group is a controller",
        pod(owner="DaemonSet/x", api="apps.kruise.io/v1"),
        {},
        "evict",
        (),
    ),
    ("orphan of a DaemonSet", pod(owner="DaemonSet/lost"), {}, "refuse", ("evict_unmanaged",)),
    ("orphan of a DaemonSet, allowed", pod(owner="DaemonSet/lost"), {"evict_unmanaged": True}, "evict", ()),
    ("DaemonSet of the same name elsewhere", pod(namespace="other", **DAEMON), {}, "refuse", ("evict_unmanaged",)),
    ("succeeded", pod(phase="Succeeded", owner=None), {}, "skip", ()),
    ("T30 ended, but held by a finalizer", pod(phase="Failed", deleted="2026-12-01T11:59:00Z"), {}, "wait", ()),
    ("failed, with emptyDir", pod(phase="Failed", volumes=DISK), {}, "skip", ()),
    ("terminating", pod(deleted="2026-12-01T12:00:20Z", owner=None, volumes=DISK), {}, "wait", ()),
    ("naked", pod(owner=None), {}, "refuse", ("evict_unmanaged",)),
    ("owned but not controlled", pod(controls=False), {}, "refuse", ("evict_unmanaged",)),
    (
        "T37 controlled by a custom resource",
        pod(owner="ArangoMember/db", api="database.arangodb.com/v1"),
        {},
        "evict",
        (),
    ),
    ("emptyDir on disk", pod(volumes=DISK), {}, "refuse", ("delete_emptydir_data",)),
    ("emptyDir on disk, allowed", pod(volumes=DISK), {"delete_emptydir_data": True}, "evict", ()),
    ("emptyDir in memory", pod(volumes=SHM), {}, "evict", ()),
    ("naked with emptyDir", pod(owner=None, volumes=DISK), {}, "refuse", ("evict_unmanaged", "delete_emptydir_data")),
    (
        "M-4 emptyDir flag alone does not let a naked pod go",
        pod(owner=None, volumes=DISK),
        {"delete_emptydir_data": True},
        "refuse",
        ("evict_unmanaged",),
    ),
    (
        "the other flag alone",
        pod(owner=None, volumes=DISK),
        {"evict_unmanaged": True},
        "refuse",
        ("delete_emptydir_data",),
    ),
    ("diagnostic of ours, naked", pod(namespace="gpuops-system", owner=None, volumes=DISK), {}, "evict", ()),
]


@pytest.mark.parametrize(("subject", "options", "action", "asked"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_treatment(subject, options, action, asked):
    found = pods.treatment(subject, EXISTING, **options)
    assert (found.action, found.options) == (action, asked)


def test_refusal_names_what_would_be_lost():
    found = pods.treatment(pod(owner=None, volumes=DISK), EXISTING)
    assert "nothing manages it" in found.reason
    assert "scratch" in found.reason


def test_daemonsets_that_may_not_be_read_are_taken_to_exist():
    assert pods.treatment(pod(owner="DaemonSet/lost"), None).action == "skip"


@pytest.mark.parametrize(
    ("own", "override", "seconds"), [(None, None, 30), (0, None, 0), (600, None, 600), (600, 0, 0), (10, 45, 45)]
)
def test_grace(own, override, seconds):
    assert pods.grace_s(pod(grace=own), override) == seconds


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        ({}, 0),
        ({"nvidia.com/gpu": "8"}, 8),
        ({"nvidia.com/mig-1g.10gb": "2", "nvidia.com/gpu": "1"}, 3),
        ({"cpu": "4"}, 0),
    ],
)
def test_gpus(limits, count):
    assert pods.gpus(pod(limits=limits)) == count


# T38 (cilium/tetragon#3484, nodewright PR #264)
@pytest.mark.parametrize(
    ("tolerations", "tolerates"),
    [
        ([], False),
        ([{"operator": "Exists"}], True),
        ([{"operator": "Exists", "effect": "NoExecute"}], False),
        ([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], True),
        ([{"key": "nvidia.com/gpu", "operator": "Exists"}], False),
    ],
)
def test_tolerates_cordon(tolerations, tolerates):
    assert pods.tolerates_cordon(pod(tolerations=tolerations)) is tolerates


def test_times_of_a_terminating_pod():
    leaving = pod(deleted="2026-12-01T12:00:20Z", grace=60)
    assert pods.overdue_s(leaving, NOW) == -20
    assert pods.terminating_s(leaving, NOW) == 40
