# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing and reading objects: versions, conflicts, selectors, pages, status, patches, custom resources, namespaces."""

from __future__ import annotations

import uuid
from urllib.parse import quote

import pytest

from tests.contract.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, is_true, until
from tests.contract.world import World

NODE = "/api/v1/nodes/ct-2"


@pytest.fixture
def maps(namespace):
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def node(api):
    yield NODE
    api.merge(NODE, {"spec": {"unschedulable": None, "taints": None}})


def test_a_name_exists_once(api, maps):
    assert api.post(maps, {"metadata": {"name": "a"}}).status == 201
    again = api.post(maps, {"metadata": {"name": "a"}})
    assert (again.status, again.reason) == (409, "AlreadyExists")


def test_a_write_with_an_old_version_conflicts(api, maps):
    old = api.post(maps, {"metadata": {"name": "a"}, "data": {"k": "1"}}).body
    new = api.merge(f"{maps}/a", {"data": {"k": "2"}}).body
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])
    refused = api.call("PUT", f"{maps}/a", {**old, "data": {}})
    assert (refused.status, refused.reason) == (409, "Conflict")


def test_a_write_that_changes_nothing_moves_nothing(api, maps):
    old = api.post(maps, {"metadata": {"name": "a"}, "data": {"k": "1"}}).body
    same = api.merge(f"{maps}/a", {"data": {"k": "1"}}).body
    assert same["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


def test_a_dry_run_stores_nothing(api, maps):
    assert api.post(f"{maps}?dryRun=All", {"metadata": {"name": "a"}}).status == 201
    assert api.get(f"{maps}/a").status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("GET", "/api/v1/nodes/nope", None, "nodes"),
        ("DELETE", "/api/v1/nodes/nope", None, "nodes"),
        ("POST", "/api/v1/namespaces/nope/configmaps", {"metadata": {"name": "x"}}, "namespaces"),
        ("GET", "/api/v1/namespaces/nope/configmaps/x", None, "configmaps"),
    ],
)
def test_what_is_missing_is_named(api, method, path, body, kind):
    answer = api.call(method, path, body)
    assert (answer.status, answer.reason, answer.details["kind"]) == (404, "NotFound", kind)


@pytest.mark.parametrize(
    ("body", "status"), [({"metadata": {"name": "Bad_Name"}}, 422), ({"metadata": {}}, 422), ({"metadata": []}, 400)]
)
def test_bad_bodies_are_refused(api, maps, body, status):
    assert api.post(maps, body).status == status


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("labelSelector=app in (a, c)", ["a"]),
        ("labelSelector=app notin (a, c)", ["b"]),
        ("labelSelector=app!=a", ["b"]),
        ("labelSelector=app=a,tier", ["a"]),
        ("labelSelector=tier", ["a"]),
        ("labelSelector=!tier", ["b"]),
        ("fieldSelector=metadata.name!=a", ["b"]),
        ("fieldSelector=spec.nodeName=ct-0", ["a"]),
        ("fieldSelector=spec.nodeName=ct-0,metadata.name=b", []),
    ],
)
def test_selectors(api, namespace, selector, names):
    world = World(api, namespace)
    for name, node, labels in (("a", "ct-0", {"app": "a", "tier": "x"}), ("b", "ct-1", {"app": "b"})):
        pod = world.template(name)
        pod["metadata"] = {"name": name, "labels": labels}
        pod["spec"]["nodeName"] = node
        assert api.post(f"{world.core}/pods", pod).status == 201
    key, _, value = selector.partition("=")
    found = api.get(f"{world.core}/pods?{key}={quote(value)}").items
    assert [pod["metadata"]["name"] for pod in found] == names


def test_pages_come_from_one_snapshot(api, maps):
    for i in range(5):
        api.post(maps, {"metadata": {"name": f"p{i}"}})
    first = api.get(f"{maps}?limit=2").body
    assert len(first["items"]) == 2
    assert first["metadata"]["remainingItemCount"] >= 3
    api.post(maps, {"metadata": {"name": "p9"}})
    seen, token = list(first["items"]), first["metadata"]["continue"]
    while token:
        page = api.get(f"{maps}?limit=2&continue={quote(token)}").body
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        seen, token = seen + page["items"], page["metadata"].get("continue")
    names = {item["metadata"]["name"] for item in seen}
    assert {f"p{i}" for i in range(5)} <= names
    assert "p9" not in names


def test_taints_are_replaced_as_a_whole(api, node):
    for key in ("a", "b"):
        api.call("PATCH", node, {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}, STRATEGIC)
    assert [t["key"] for t in api.get(node).body["spec"]["taints"]] == ["b"]


def test_a_cordon_brings_a_taint_and_its_end_takes_it(api, node):
    taint = "node.kubernetes.io/unschedulable"
    api.merge(node, {"spec": {"unschedulable": True}})
    assert until(lambda: taint in [t["key"] for t in api.get(node).body["spec"].get("taints", [])])
    api.merge(node, {"spec": {"unschedulable": None}})
    assert until(lambda: taint not in [t["key"] for t in api.get(node).body["spec"].get("taints", [])])


def test_conditions_merge_by_type(api, node):
    condition = {"type": "GpuHealthy", "status": "False", "reason": "Xid79"}
    body = {"status": {"conditions": [condition]}, "spec": {"unschedulable": True}}
    patched = api.call("PATCH", f"{node}/status", body, STRATEGIC).body
    assert {"Ready", "GpuHealthy"} <= {c["type"] for c in patched["status"]["conditions"]}
    assert not patched["spec"].get("unschedulable"), "spec is not written through the status"


def test_status_is_not_written_through_the_object(api, node):
    api.call("PATCH", node, {"status": {"conditions": None}, "metadata": {"labels": {"z": "1"}}}, STRATEGIC)
    found = api.get(node).body
    assert is_true(found, "Ready")
    assert found["metadata"]["labels"]["z"] == "1"


@pytest.mark.parametrize(
    ("content_type", "patch", "status", "reason"),
    [
        (JSON_PATCH, [{"op": "test", "path": "/metadata/labels/pool", "value": "wrong"}], 422, "Invalid"),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels/nothing"}], 422, "Invalid"),
        (MERGE, {"metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
        (MERGE, {"spec": {"unschedulable": "yes"}}, 422, "Invalid"),
        (MERGE, {"spec": {"taints": [{"key": "a", "effect": "Never"}]}}, 422, "Invalid"),
        ("application/json", {}, 415, "UnsupportedMediaType"),
    ],
)
def test_refused_patches_change_nothing(api, content_type, patch, status, reason):
    before = api.get("/api/v1/nodes/ct-1").body
    answer = api.call("PATCH", "/api/v1/nodes/ct-1", patch, content_type)
    assert (answer.status, answer.reason) == (status, reason)
    after = api.get("/api/v1/nodes/ct-1").body
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])


def test_an_applier_owns_what_it_applies(api, maps):
    def apply(manager, data, query=""):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": data}
        return api.call("PATCH", f"{maps}/s?fieldManager={manager}{query}", body, APPLY)

    created = apply("one", {"a": "1", "b": "1"})
    assert created.status == 201
    assert [entry["manager"] for entry in created.body["metadata"]["managedFields"]] == ["one"]
    refused = apply("two", {"a": "2"})
    assert (refused.status, refused.details["causes"][0]["reason"]) == (409, "FieldManagerConflict")
    assert apply("two", {"a": "1"}).status == 200, "the same value is no conflict"
    assert apply("two", {"a": "2"}, "&force=true").body["data"] == {"a": "2", "b": "1"}
    assert apply("one", {}).body.get("data") == {"a": "2"}, "what an applier leaves out goes, unless another owns it"


@pytest.mark.parametrize(("mode", "status"), [("Strict", 422), ("Warn", 200), ("Ignore", 200)])
def test_unknown_fields(api, mode, status):
    answer = api.merge(f"{NODE}?fieldValidation={mode}&dryRun=All", {"spec": {"unschedulabel": True}})
    assert answer.status == status
    assert ("Warning" in answer.headers) == (mode == "Warn")
    assert status == 422 or "unschedulabel" not in answer.body["spec"]


@pytest.fixture
def foos(api, namespace):
    group = f"g{uuid.uuid4().hex[:6]}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }
        ],
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api.post(crds, {"metadata": {"name": f"foos.{group}"}, "spec": spec}).status == 201
    path = f"/apis/{group}/v1/namespaces/{namespace}/foos"
    assert until(lambda: api.get(path).status == 200)
    body = {"apiVersion": f"{group}/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": {"a": {"b": 1}}}
    assert until(lambda: api.post(path, body).status == 201)
    yield path
    api.delete(f"{crds}/foos.{group}")


def test_custom_resources_take_merge_patches_only(api, foos):
    assert api.merge(f"{foos}/f", {"spec": {"a": {"c": 2}}}).body["spec"] == {"a": {"b": 1, "c": 2}}
    assert api.call("PATCH", f"{foos}/f", {"spec": {}}, STRATEGIC).status == 415


def test_custom_status_is_apart(api, foos):
    answer = api.merge(f"{foos}/f/status", {"status": {"x": 1}, "spec": {"a": 9}})
    assert (answer.body["status"], answer.body["spec"]) == ({"x": 1}, {"a": {"b": 1}})
    assert api.merge(f"{foos}/f", {"status": {"x": 2}}).body["status"] == {"x": 1}


def test_a_dying_namespace_takes_nothing_new_and_ends_with_its_last_object(api, namespace):
    name = f"{namespace}-x"
    maps = f"/api/v1/namespaces/{name}/configmaps"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    api.post(maps, {"metadata": {"name": "hold", "finalizers": ["example.com/hold"]}})
    api.delete(f"/api/v1/namespaces/{name}")
    assert api.get(f"/api/v1/namespaces/{name}").body["status"]["phase"] == "Terminating"
    assert api.post(maps, {"metadata": {"name": "late"}}).status == 403
    assert until(lambda: api.get(f"{maps}/hold").body["metadata"].get("deletionTimestamp"))
    api.merge(f"{maps}/hold", {"metadata": {"finalizers": None}})
    assert until(lambda: api.get(f"/api/v1/namespaces/{name}").status == 404)
