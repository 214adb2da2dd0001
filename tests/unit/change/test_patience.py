# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No state is waited for longer than the operator itself could need, and what keeps a node there has a name."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import patience
from ansible_collections.gpuops.lifecycle.plugins.module_utils.change.driver_steps import Seen

NEW, OLD = "580.95.05", "575.57.08"


def seen(state="", **changed):
    return Seen(**{**dict(wanted=NEW, policy_version=NEW, state=state, label_version=NEW), **changed})


@pytest.mark.parametrize(
    ("view", "rules", "limit_s"),
    [
        (seen("wait-for-jobs-required"), {}, None),
        (seen("wait-for-jobs-required"), {"waitForCompletion": {"timeoutSeconds": 0}}, None),
        (seen("wait-for-jobs-required"), {"waitForCompletion": {"timeoutSeconds": 600}}, 900),
        (seen("pod-deletion-required"), {}, 600),
        (seen("pod-deletion-required"), {"podDeletion": {"timeoutSeconds": 60}}, 360),
        (seen("drain-required"), {"drain": {"enable": True, "timeoutSeconds": 100}}, 400),
        (seen("pod-restart-required"), {}, 1440),
        (seen("validation-required"), {}, 900),
        (seen("validation-required", validator=""), {}, 180),
        (seen("upgrade-done"), {}, 300),
        (seen("upgrade-failed"), {}, 300),
        (seen("cordon-required"), {}, 300),
    ],
)
def test_limits(view, rules, limit_s):
    assert patience.limit_s(view, rules) == limit_s


def test_a_validation_that_the_operator_gives_up_itself_is_not_given_up_before():
    assert patience.limit_s(seen("validation-required"), {}) > 720


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (seen("pod-restart-required", node_ready=False, pod_ready=False), ["the node is not Ready", "describe node n"]),
        (seen("pod-deletion-required", gpu_pods=("x/y",)), ["x/y", "get pdb"]),
        (
            seen("pod-restart-required", pod="", pod_ready=False, foreign_taints=("k:NoSchedule",)),
            ["no driver pod", "k:NoSchedule"],
        ),
        (seen("pod-restart-required", pod="", pod_ready=False), ["no driver pod on it (kubectl"]),
        (
            seen("pod-restart-required", pod="d-1", pod_ready=False, pod_waiting="ImagePullBackOff"),
            ["driver pod d-1 is not Ready: ImagePullBackOff", "kubectl -n ns logs d-1"],
        ),
        (seen("validation-required", validator="", validated=False), ["no validator pod", "operator-validator"]),
        (seen("validation-required", validator="v-1", validated=False), ["validator pod v-1", "describe pod v-1"]),
        (seen("", pod_in_sync=False), ["not of the newest revision"]),
        (seen("", pod_in_sync=None), ["not of the newest revision"]),
        (seen("upgrade-done", label_version=OLD), [f"label says {OLD}", "gpu-feature-discovery"]),
        (seen("upgrade-done", label_version=""), ["label says nothing"]),
        (seen("validation-required"), ["does not move on", "logs deploy/gpu-operator"]),
    ],
)
def test_what_keeps_a_node_there(view, says):
    text = patience.stuck(view, "n", "ns")
    assert all(part in text for part in says), text
