# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server answers as kube-apiserver 1.36.3 answered: see recorded.py for what is compared."""

from __future__ import annotations

import os
import urllib.parse

import pytest

from tests.contract import recorded
from tests.contract.api import APPLY, until
from tests.contract.world import World

REAL = "KUBECONFIG_CONTRACT" in os.environ
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CRD = {
    "metadata": {"name": "noderecords.lifecycle.gpuops.io"},
    "spec": {
        "group": "lifecycle.gpuops.io",
        "scope": "Cluster",
        "names": {
            "plural": "noderecords",
            "kind": "NodeRecord",
            "singular": "noderecord",
            "listKind": "NodeRecordList",
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "x-kubernetes-validations": [
                                    {"rule": "self == oldSelf", "message": "a record is immutable"}
                                ],
                                "properties": {"kind": {"type": "string", "enum": ["Qualification", "Fault"]}},
                            }
                        },
                    }
                },
            }
        ],
    },
}


# -- situations: each makes what its recorded answer was asked about, whatever was there before
def nothing(world):
    pass


def cordoned(world):
    world.api.merge("/api/v1/nodes/pr-0", {"spec": {"unschedulable": True}})
    assert until(lambda: world.api.get("/api/v1/nodes/pr-0").body["spec"].get("taints"))


def uncordoned(world):
    world.api.merge("/api/v1/nodes/pr-0", {"spec": {"unschedulable": None, "taints": None}})


def no_lease(world):
    world.api.delete(f"{world.leases}/l")


def lease(world):
    no_lease(world)
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 60}
    assert world.api.post(world.leases, {"metadata": {"name": "l"}, "spec": spec}).status == 201


def not_applied(world):
    world.api.delete(f"{world.core}/configmaps/ssa")


def applied(world):
    not_applied(world)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": {"a": "1"}}
    path = f"{world.core}/configmaps/ssa?fieldManager=one"
    assert world.api.call("PATCH", path, body, APPLY).status == 201


def settled_tight(world):
    assert until(lambda: world.budget_status("tight").get("currentHealthy") == 2)


def terminating(world):
    pods = world.pods("stuck")
    if not any("deletionTimestamp" in pod["metadata"] for pod in pods):
        assert world.api.evict(pods[0], gracePeriodSeconds=7).status == 201


def new_stuck(world):
    for pod in world.pods("stuck"):
        world.api.delete(f"{world.core}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    assert until(lambda: world.running("stuck") and len(world.pods("stuck")) == 1)


def alive_namespace(world):
    world.api.post("/api/v1/namespaces", {"metadata": {"name": "probe-gone"}})
    body = {"metadata": {"name": "hold", "finalizers": ["example.com/hold"]}}
    world.api.post("/api/v1/namespaces/probe-gone/configmaps", body)


def dying_namespace(world):
    alive_namespace(world)
    world.api.delete("/api/v1/namespaces/probe-gone")
    path = "/api/v1/namespaces/probe-gone/configmaps/hold"
    assert until(lambda: world.api.get(path).body["metadata"].get("deletionTimestamp"))


def no_fresh_budgets(world):
    for name in ("fresh", "both"):
        world.api.delete(f"{world.budgets}/{name}")


def fresh_budget(world):
    no_fresh_budgets(world)
    world.budget("fresh", app="none", maxUnavailable=1)


def custom(world):
    world.api.delete("/apis/lifecycle.gpuops.io/v1alpha1/noderecords/r1")
    world.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    assert until(lambda: world.api.get("/apis/lifecycle.gpuops.io/v1alpha1/noderecords").status == 200)


def record(world):
    custom(world)
    body = {"metadata": {"name": "r1"}, "spec": {"kind": "Qualification", "verdict": "pass"}}
    body.update(apiVersion="lifecycle.gpuops.io/v1alpha1", kind="NodeRecord")
    assert world.api.post("/apis/lifecycle.gpuops.io/v1alpha1/noderecords", body).status == 201


def renewed_node(world):
    """pr-0 is deleted by none of these; pr-1 is, and comes back."""
    sizes = {"cpu": "64", "memory": "512Gi", "pods": "250"}
    status = {"capacity": sizes, "allocatable": sizes}
    world.api.post("/api/v1/nodes", {"metadata": {"name": "pr-1", "labels": {"pool": "probe"}}, "status": status})


def pending_pages(world):
    """A second page needs a first one: its token replaces the recorded one."""
    token = world.api.get(f"{world.core}/pods?limit=1").body["metadata"]["continue"]
    return {"continue": token}


def changed_labels(world):
    version = world.api.get(f"{world.core}/configmaps").body["metadata"]["resourceVersion"]
    path = f"{world.core}/configmaps"
    world.api.post(path, {"metadata": {"name": "w", "labels": {"on": "1"}}})
    world.api.merge(f"{path}/w", {"metadata": {"labels": {"on": None}}})
    world.api.merge(f"{path}/w", {"metadata": {"labels": {"on": "1"}}})
    world.api.delete(f"{path}/w")
    return {"resourceVersion": version}


def present(world):
    return {"resourceVersion": world.api.get(f"{world.core}/configmaps").body["metadata"]["resourceVersion"]}


NOBODY = {"Impersonate-User": "nobody"}
CASES = [
    # eviction
    ("evict-dry-run", nothing), ("evict-dry-run-query", nothing), ("evict-wrong-uid", nothing),
    ("evict-wrong-rv", nothing), ("evict-ok", nothing), ("evict-not-found", nothing), ("evict-no-namespace", nothing),
    ("evict-body-name-mismatch", nothing), ("evict-body-no-name", nothing), ("evict-body-no-namespace", nothing),
    ("evict-body-v1beta1", nothing), ("evict-body-wrong-kind", nothing), ("evict-get", nothing),
    ("evict-budget", settled_tight), ("evict-budget-dry-run", settled_tight), ("evict-budget-wrong-uid", settled_tight),
    ("evict-two-budgets", nothing), ("evict-unready-ifhealthybudget", nothing), ("evict-grace", new_stuck),
    ("pod-terminating", terminating), ("evict-already-terminating", terminating),
    ("pod-delete-wrong-uid", nothing), ("pod-delete-force", terminating), ("pod-delete", new_stuck),
    # budgets
    ("pdb-status", settled_tight), ("pdb-both", no_fresh_budgets), ("pdb-create", no_fresh_budgets),
    ("pdb-no-pods", fresh_budget),
    # nodes and patches
    ("node-get", nothing), ("node-not-found", nothing), ("node-cordon", uncordoned), ("node-cordoned", cordoned),
    ("node-taint-strategic", cordoned), ("node-taint-invalid", uncordoned), ("node-taint-duplicate", uncordoned),
    ("node-label-invalid", nothing), ("node-uncordon", cordoned), ("node-json-patch-test-failed", nothing),
    ("node-json-patch-missing-path", nothing), ("node-merge-patch-conflict", nothing),
    ("node-patch-wrong-type", nothing), ("node-patch-content-type", nothing), ("node-patch-malformed", nothing),
    ("node-status-patch", nothing), ("node-put-no-rv", nothing), ("node-put-name-mismatch", nothing),
    ("strict-unknown-field", nothing), ("warn-unknown-field", nothing), ("node-patch-dry-run", nothing),
    # server-side apply
    ("apply-create", not_applied), ("apply-conflict", applied), ("apply-force", applied), ("apply-no-manager", nothing),
    # leases
    ("lease-create", no_lease), ("lease-create-exists", lease), ("lease-update-conflict", lease),
    ("lease-put-no-rv", lease), ("lease-patch-conflict", lease), ("lease-bad-time", lease),
    ("lease-bad-duration", lease), ("lease-delete-precondition", lease), ("lease-delete", lease),
    # refusals
    ("forbidden-evict", nothing), ("forbidden-list-pods", nothing), ("unauthorized", nothing),
    ("unknown-path", nothing), ("unknown-group", nothing), ("unknown-resource", nothing),
    ("method-not-allowed", nothing), ("create-malformed", nothing), ("create-wrong-kind", nothing),
    ("create-content-type", nothing), ("create-name-invalid", nothing), ("create-in-missing-namespace", nothing),
    ("accept-unknown", nothing), ("accept-yaml", nothing),
    # lists and tables
    ("list-first-page", nothing), ("list-second-page", pending_pages), ("list-selector-no-remaining", nothing),
    ("list-bad-continue", nothing), ("list-expired-continue", nothing), ("list-bad-field", nothing),
    ("list-bad-label", nothing), ("list-bad-limit", nothing), ("list-rv0", nothing), ("list-rv-garbage", nothing),
    ("list-rv-future", nothing), ("list-empty", nothing), ("list-metadata-only", nothing), ("table-pods", nothing),
    ("table-nodes", nothing), ("table-pdb", nothing),
    # watches
    ("watch-selector", changed_labels), ("watch-initial-events-no-match", nothing), ("watch-too-old", nothing),
    ("watch-garbage", nothing), ("watch-future", nothing), ("watch-rv0", applied), ("watch-unset", applied),
    ("watch-bookmarks", present), ("watch-table", nothing), ("watch-one-name", applied),
    # namespaces, custom resources, discovery
    ("namespace-delete", alive_namespace), ("namespace-terminating-create", dying_namespace),
    ("namespace-delete-again", dying_namespace), ("finalizer-add-while-deleting", dying_namespace),
    ("crd-create", custom), ("crd-enum", custom), ("crd-immutable", record), ("crd-not-installed", custom),
    ("version", nothing), ("discovery-core", nothing), ("discovery-policy", nothing), ("discovery-aggregated", nothing),
    ("node-delete", renewed_node),
]  # fmt: skip

# Recorded with the controller manager stopped at the right moment, or after etcd's compaction: tests/unit/simulator makes
# those moments without HTTP. `watch-initial-events` has no request in its record: see test_watches.py.
MADE_ELSEWHERE = {
    "evict-stale-generation", "evict-wrong-uid-spends-budget", "pdb-new", "pdb-spent", "list-after-compaction",
    "list-exact-after-compaction", "watch-initial-events",
}  # fmt: skip
# Where the simulated cluster differs, and why.
EXPECTED = {
    "list-first-page": "the recorded pod had been evicted, so it has a condition DisruptionTarget",
    "watch-rv0": "kube-root-ca.crt is not published into namespaces",
    "watch-unset": "kube-root-ca.crt is not published into namespaces",
}


@pytest.fixture(scope="module")
def world(api):
    world = World(api, "probe", "probe")
    api.post("/api/v1/namespaces", {"metadata": {"name": "probe"}})
    assert until(lambda: api.get(f"{world.core}/serviceaccounts/default").status == 200)
    world.deploy("free", 3)
    world.deploy("tight", 2)
    world.budget("tight", minAvailable=2, allowed=0)
    world.deploy("two", 1)
    for name in ("two-a", "two-b"):
        world.budget(name, app="two", minAvailable=0)
    world.deploy("sick", 2, ready="false")
    world.budget("sick", minAvailable=1)
    world.deploy("stuck", 1, stuck="true")
    yield world
    for pod in world.pods("stuck"):
        api.delete(f"{world.core}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    api.merge("/api/v1/namespaces/probe-gone/configmaps/hold", {"metadata": {"finalizers": None}})
    api.delete("/api/v1/namespaces/probe")


@pytest.mark.parametrize(("name", "situation"), CASES, ids=[name for name, _ in CASES])
def test_answers_as_recorded(world, name, situation):
    if REAL and name == "watch-too-old":
        pytest.skip("a control plane that has just started still knows version 1")
    found = recorded.load(name)
    query = situation(world) or {}
    method, path, body, content_type, accept = recorded.request_of(found, world, world.namespace)
    for key, value in query.items():
        head, _, tail = path.partition(f"{key}=")
        assert tail, f"{path} has no {key}"
        path = f"{head}{key}={urllib.parse.quote(value)}" + tail[len(tail.split("&")[0]) :]
    headers = {"forbidden": NOBODY, "unauthorized": {"Authorization": "Bearer nope"}}.get(name.split("-")[0])
    if name == "table-pods":
        accept = TABLE
    answer = world.api.call(method, path, body, content_type, accept, headers)
    if name.startswith("discovery-"):
        answer.body = _only_recorded(answer.body, found["body"])
    if name == "watch-table":
        answer.body = answer.body[:1]
    different = recorded.differences(found, answer)
    if name not in EXPECTED:
        assert not different, "\n".join(different)
    elif not REAL:
        assert different, f"{name} no longer differs: take it out of EXPECTED"


def test_every_recorded_answer_has_a_test():
    names = {path.stem for path in recorded.FOLDER.glob("*.json")}
    assert names == {name for name, _ in CASES} | MADE_ELSEWHERE


def _only_recorded(body, want):
    """Discovery lists everything; the record keeps the parts about pods and budgets."""
    if "items" in body:
        names = [item["metadata"]["name"] for item in want["items"]]
        return {**body, "items": [item for item in body["items"] if item["metadata"]["name"] in names]}
    names = [entry["name"] for entry in want["resources"]]
    return {**body, "resources": [entry for entry in body["resources"] if entry["name"] in names]}
