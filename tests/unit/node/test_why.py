# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every reason a node is out, with its owner and its end."""

from __future__ import annotations

import pytest
from nodes import GPU_TAINT, TAINT, UNSCHEDULABLE, entry, node

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import why


def annotated(obj, **annotations):
    obj["metadata"]["annotations"].update(annotations)
    return obj


@pytest.mark.parametrize(
    ("obj", "kinds", "whose"),
    [
        (node(), [], None),
        (node(cordoned=True, holds=[entry()], taints=[GPU_TAINT, TAINT, UNSCHEDULABLE]), ["hold"], "gpuops"),
        (node(cordoned=True, taints=[GPU_TAINT, UNSCHEDULABLE]), ["cordon"], "somebody else"),
        (annotated(node(cordoned=True), **{"weave.works/kured-node-lock": "x"}), ["cordon"], "kured"),
        (annotated(node(cordoned=True), quarantineHealthEvent="x"), ["cordon"], "NVSentinel"),
        (node(cordoned=True, holds=[entry(by_us=False)]), ["hold", "cordon"], "gpuops"),
        (node(taints=[{"key": "medik8s.io/drain", "effect": "NoSchedule"}]), ["taint"], "medik8s node maintenance"),
        (node(taints=[{"key": "example.com/mine", "effect": "NoExecute"}]), ["taint"], "somebody else"),
        (node(taints=[{"key": "example.com/soft", "effect": "PreferNoSchedule"}]), [], None),
        (node(ready=False), ["condition"], "the node controller"),
        (node(labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), ["operator"], "the GPU operator"),
    ],
)
def test_reasons(obj, kinds, whose):
    found = why.reasons(obj)
    assert [reason["kind"] for reason in found] == kinds
    assert not found or found[0]["whose"] == whose
    assert all(reason["why"] and reason["ends"] for reason in found)


def test_a_failing_record_is_named_as_what_keeps_the_hold():
    record = {"metadata": {"name": "a-000002"}, "spec": {"verdict": "fail", "reason": "GPU 5"}}
    held = why.reasons(node(cordoned=True, holds=[entry()]), record)[0]
    assert "a-000002 says fail: GPU 5" in held["ends"]
    assert "gpuops_retry_failed" in held["ends"]
