# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What makes the operator upgrade nothing, and say nothing, is found before anything is changed."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import preconditions

ARMED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
HOLD = {"lifecycle.gpuops.io/hold": json.dumps([{"owner": "gpuops"}])}
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def policy(**metadata):
    rules = {"autoUpgrade": True, "drain": {"enable": False}}
    return {
        "metadata": {"name": "cluster-policy", **metadata},
        "spec": {"driver": {"enabled": True, "upgradePolicy": rules}},
    }


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda spec: None, None),
        (lambda spec: spec["driver"].pop("enabled"), None),
        (lambda spec: spec["driver"]["upgradePolicy"].pop("drain"), "no driver.upgradePolicy.drain"),
        (lambda spec: spec["driver"]["upgradePolicy"].update(autoUpgrade=False), "autoUpgrade off"),
        (lambda spec: spec["driver"].pop("upgradePolicy"), "autoUpgrade off"),
        (lambda spec: spec["driver"].update(enabled=False), "does not manage"),
        (lambda spec: spec["driver"].update(useNvidiaDriverCRD=True), "NVIDIADriver"),
        (lambda spec: spec.update(sandboxWorkloads={"enabled": True}), "sandboxWorkloads"),
    ],
)
def test_policy(edit, says):
    wanted = policy()
    edit(wanted["spec"])
    found = preconditions.of_policy(wanted)
    assert (found == []) if says is None else any(says in text for text in found)


@pytest.mark.parametrize(
    ("metadata", "mark", "release"),
    [
        ({}, None, ""),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, None, "gpu-operator"),
        (
            {
                "labels": {"app.kubernetes.io/managed-by": "Helm"},
                "annotations": {"meta.helm.sh/release-name": "gpu-operator-17"},
            },
            None,
            "gpu-operator-17",
        ),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "argocd.argoproj.io/tracking-id", ""),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, "kustomize.toolkit.fluxcd.io/name", ""),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "x"}}, "helm.toolkit.fluxcd.io/name", ""),
    ],
)
def test_owner_of_the_policy(metadata, mark, release):
    assert preconditions.gitops_mark(policy(**metadata)) == mark
    assert preconditions.helm_release(policy(**metadata)) == release


def daemonset(desired=3, generation=2, seen=2, uid="u"):
    template = {"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}}
    return {
        "metadata": {"name": "driver", "uid": uid, "generation": generation},
        "spec": {"template": template},
        "status": {"desiredNumberScheduled": desired, "observedGeneration": seen},
    }


def pods(*nodes, uid="u"):
    ref = {"kind": "DaemonSet", "uid": uid, "controller": True, "name": "driver"}
    return [{"metadata": {"name": f"driver-{n}", "ownerReferences": [ref]}, "spec": {"nodeName": n}} for n in nodes]


def node(name, state="upgrade-done", ready=True, taints=(GPU,), annotations=None):
    return {
        "metadata": {
            "name": name,
            "labels": {"nvidia.com/gpu-driver-upgrade-state": state},
            "annotations": annotations or {},
        },
        "spec": {"taints": list(taints)},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }


def taint(key, effect="NoSchedule"):
    return {"key": key, "effect": effect}


THREE = [node("a"), node("b"), node("c")]


@pytest.mark.parametrize(
    ("daemonsets", "on", "nodes", "says"),
    [
        ([daemonset()], "abc", THREE, []),
        ([daemonset(), daemonset(desired=0, uid="other")], "abc", THREE, []),
        ([daemonset(), daemonset(desired=1, uid="other")], "abc", THREE, ["wants 1 driver pods and has 0"]),
        ([], "", [], ["no driver DaemonSet"]),
        ([daemonset(desired=4)], "abc", THREE, ["wants 4 driver pods and has 3", "a pod is missing"]),
        (
            [daemonset(desired=2)],
            "abc",
            [node("a"), node("b", taints=[GPU, taint("x/out")]), node("c")],
            ["has 3", "b has taint x/out:NoSchedule"],
        ),
        (
            [daemonset(desired=2)],
            "abc",
            [node("a"), node("b"), node("c", ready=False, taints=[taint("node.kubernetes.io/unreachable")])],
            ["c has taint node.kubernetes.io/unreachable:NoSchedule", "c is not Ready"],
        ),
        ([daemonset(generation=3)], "abc", THREE, ["not counted anew"]),
        ([daemonset()], "abc", [node("a", ready=False), *THREE[1:]], ["a is not Ready"]),
    ],
)
def test_what_stops_the_operator(daemonsets, on, nodes, says):
    found = preconditions.stops(daemonsets, pods(*on), nodes)
    assert bool(found) is bool(says), found
    assert all(part in "; ".join(found) for part in says)


@pytest.mark.parametrize(
    ("of", "keeps_away"),
    [
        (taint("x/y"), True),
        (taint("x/y", "NoExecute"), True),
        (taint("x/y", "PreferNoSchedule"), False),
        (GPU, False),
        (taint("node.kubernetes.io/unschedulable"), False),
        (taint("node.kubernetes.io/not-ready", "NoExecute"), False),
        (taint("node.kubernetes.io/not-ready"), True),
    ],
)
def test_taints_that_keep_a_driver_pod_away(of, keeps_away):
    tolerations = daemonset()["spec"]["template"]["spec"]["tolerations"]
    assert bool(preconditions.untolerated(node("a", taints=[of]), tolerations)) is keeps_away


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (node("b"), None),
        (node("b", "upgrade-required"), None),
        (node("b", ""), None),
        (node("b", "drain-required"), "b is in the operator's state drain-required"),
        (node("b", "drain-required", annotations={ARMED: "true", **HOLD}), "b is in the operator's state"),
        (node("b", "upgrade-failed"), "b is in the operator's state upgrade-failed"),
        (node("b", "upgrade-failed", annotations=HOLD), "b is in the operator's state upgrade-failed"),
        (node("b", "upgrade-failed", annotations={ARMED: "true"}), "b is in the operator's state upgrade-failed"),
        (node("b", "upgrade-failed", annotations={ARMED: "true", **HOLD}), None),
    ],
)
def test_other_nodes_in_the_middle_of_something(other, says):
    found = preconditions.disturbs("a", [node("a", "upgrade-failed"), other])
    assert (found == []) if says is None else [says in text for text in found] == [True]
