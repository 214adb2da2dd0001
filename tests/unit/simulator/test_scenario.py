# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scenario files: what they become, and what a malformed one is told."""

from __future__ import annotations

import textwrap

import pytest

from simulator import scenario
from simulator.clock import Clock
from simulator.cluster import Cluster
from simulator.scenario import BadScenario
from simulator.store import Store

NODE = "nodes: [{name: a, gpus: 8}]\n"


@pytest.fixture
def load(tmp_path):
    def write_and_load(text, name="my.yml"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return scenario.load(str(path))

    return write_and_load


def test_four_h100():
    found = scenario.load("four-h100")
    assert [(n.name, n.gpus, n.product) for n in found.nodes if n.gpus] == [
        (f"gpu-node-{letter}", 8, "NVIDIA-H100-80GB-HBM3") for letter in "abcd"
    ]
    assert found.operator.driver == "575.57.08"
    assert "lifecycle.gpuops.io/hold" in [t["key"] for t in found.operator.tolerations]
    assert found.max_unavailable == 2
    kinds = [(w["kind"], w["metadata"]["name"]) for w in found.workloads]
    assert {("Deployment", "vllm-chat"), ("PodDisruptionBudget", "vllm-chat"), ("Job", "llama-finetune")} <= set(kinds)
    assert ("PodDisruptionBudget", "embeddings") not in kinds


def test_what_extends_another_replaces_its_keys_and_merges_the_operator():
    base, found = scenario.load("four-h100"), scenario.load("four-h100-untolerated")
    assert [t["key"] for t in found.operator.tolerations] == ["nvidia.com/gpu"]
    assert (found.operator.driver, found.workloads) == (base.operator.driver, base.workloads)


def test_a_file_may_extend_one_beside_it(load):
    load(NODE + "budget: {max_unavailable: 3}\n", "base.yml")
    found = load("extends: ./base.yml\nnodes: [{name: b}]\n")
    assert ([n.name for n in found.nodes], found.max_unavailable) == (["b"], 3)


def test_count_expands_a_node():
    found = scenario.load("two-hundred")
    assert [n.name for n in found.nodes if n.gpus][::199] == ["gpu-node-001", "gpu-node-200"]


MALFORMED = [
    ("not yaml", "nodes: [", "is not YAML"),
    ("no mapping", "- nodes", "a scenario is a mapping with extends, nodes"),
    ("an unknown key", NODE + "node: []", "has an unknown key 'node'; a scenario has extends, nodes"),
    ("no nodes", "budget: {max_unavailable: 1}", "nodes is empty"),
    ("nodes not a list", "nodes: {a: 1}", "nodes must be a list"),
    ("a node without a name", "nodes: [{gpus: 8}]", "nodes[0].name must be text, not None"),
    ("a node that is text", "nodes: [a]", "nodes[0] must be a mapping with a name"),
    (
        "an unknown key of a node",
        "nodes: [{name: a, gpu: 8}]",
        "nodes[0] has an unknown key 'gpu'; a node has name, gpus",
    ),
    ("too many GPUs", "nodes: [{name: a, gpus: 17}]", "nodes[0].gpus must be a number from 0 to 16, not 17"),
    ("GPUs in words", "nodes: [{name: a, gpus: eight}]", "nodes[0].gpus must be a number"),
    ("yes for a number", "nodes: [{name: a, gpus: true}]", "nodes[0].gpus must be a number"),
    ("a name that is no host name", "nodes: [{name: Node_A}]", "nodes[0].name must be a host name in lower case"),
    ("one name twice", "nodes: [{name: a}, {name: b}, {name: a}]", "the name a is given twice"),
    ("count without a format", "nodes: [{name: a, count: 2}]", "the name a is given twice"),
    ("a broken format", "nodes: [{name: 'a{}{}', count: 2}]", "nodes[0].name must be a format for one number"),
    ("a count of none", "nodes: [{name: 'a{}', count: 0}]", "nodes[0].count must be a number from 1"),
    ("a label that is a number", "nodes: [{name: a, labels: {x: 1}}]", "nodes[0].labels.x must be text, not 1"),
    ("a driver that is a number", "nodes: [{name: a, driver: 580.95}]", "nodes[0].driver must be a version such as"),
    ("an unknown setting", NODE + "operator: {drivers: x}", "operator has an unknown key 'drivers'; it has driver"),
    ("a time in words", NODE + "operator: {tick_s: soon}", "operator.tick_s must be a number"),
    (
        "a policy that is none",
        NODE + "operator: {upgrade_policy: {max: 1}}",
        "operator.upgrade_policy has an unknown key",
    ),
    ("a budget in words", NODE + "budget: {max_unavailable: all}", "budget.max_unavailable must be a number"),
    ("an unknown budget", NODE + "budget: {max_parallel: 1}", "budget has an unknown key 'max_parallel'"),
    ("a workload of no kind", NODE + "workloads: [{apiVersion: v1}]", "workloads[0].kind must be text"),
    (
        "a workload without a name",
        NODE + "workloads: [{apiVersion: v1, kind: Pod}]",
        "workloads[0].metadata must be a map",
    ),
    (
        "an unknown fault",
        NODE + "faults: [{kind: fire}]",
        "faults[0] is no fault: kind must be one of xid, weak_nvlink",
    ),
    (
        "a fault elsewhere",
        NODE + "faults: [{kind: xid, node: b}]",
        "faults[0] is no fault: node must be one of a, not 'b'",
    ),
    ("a GPU too far", NODE + "faults: [{kind: xid, node: a, gpu: 8}]", "a has GPUs 0 to 7, not 8"),
    ("a base that is not there", "extends: nothing", "There is no scenario"),
    ("a base that is a list", "extends: [a]", "extends must be text"),
    ("itself", "extends: ./my.yml", "extends itself"),
]


@pytest.mark.parametrize(("why", "text", "says"), MALFORMED, ids=[case[0] for case in MALFORMED])
def test_a_malformed_scenario_is_told_where(load, tmp_path, why, text, says):
    with pytest.raises(BadScenario) as refused:
        load(text)
    said = str(refused.value)
    assert says in said
    assert (str(tmp_path / "my.yml") in said) or "There is no scenario" in said
    assert "\n" not in said


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(BadScenario, match="there are four-h100, four-h100-untolerated, two-hundred, or give a path"):
        scenario.load("five-h100")


UNFIT = [
    ("no such kind", "{apiVersion: v1, kind: Gadget, metadata: {name: x}}", "has no v1 Gadget"),
    (
        "no such namespace",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: y}}",
        'namespaces "y" not found',
    ),
    ("a bad name", "{apiVersion: v1, kind: ConfigMap, metadata: {name: X_}}", "is invalid"),
    ("half of it", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}", "workloads[0]"),
]


@pytest.mark.parametrize(("why", "manifest", "says"), UNFIT, ids=[case[0] for case in UNFIT])
def test_a_workload_the_cluster_refuses_is_told_before_anything_runs(load, why, manifest, says):
    found = load(f"{NODE}workloads:\n  - {manifest}\n")
    clock = Clock()
    with pytest.raises(BadScenario) as refused:
        Cluster(Store(clock), clock, found)
    assert "my.yml: workloads[0]" in str(refused.value)
    assert says in str(refused.value)
