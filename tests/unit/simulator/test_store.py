# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The store's rules without a server: versions, generations, graceful deletion, indexes, who wrote."""

from __future__ import annotations

import pytest

from simulator.clock import Clock
from simulator.errors import ApiError
from simulator.store import Store

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


@pytest.fixture
def store():
    store = Store(Clock())
    store.create("namespaces", {"metadata": {"name": "default"}})
    return store


@pytest.fixture
def changes(store):
    seen = []
    store.subscribe(seen.append)
    return seen


def pod(store, name="p", node="n", **metadata):
    body = {"metadata": {"name": name, **metadata}, "spec": {**POD["spec"], **({"nodeName": node} if node else {})}}
    return store.create("pods", body, "default")


def deployment(store):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    return store.create("deployments", body, "default")


def test_every_commit_has_a_higher_version(store, changes):
    for name in ("a", "b"):
        store.create("configmaps", {"metadata": {"name": name}}, "default")
    store.mutate("configmaps", "a", lambda o: o.update(data={"k": "v"}), "default")
    store.delete("configmaps", "b", "default")
    versions = [int(change.object["metadata"]["resourceVersion"]) for change in changes]
    assert versions == sorted(set(versions))
    assert [change.type for change in changes] == ["ADDED", "ADDED", "MODIFIED", "DELETED"]


def test_mutate_that_changes_nothing_is_silent(store, changes):
    store.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}}, "default")
    store.mutate("configmaps", "a", lambda o: o.update(data={"k": "v"}), "default")
    assert [change.type for change in changes] == ["ADDED"]


def test_mutate_of_what_is_gone_is_none(store):
    assert store.mutate("configmaps", "nope", lambda o: o.update(data={}), "default") is None


def test_stored_objects_are_not_the_callers(store):
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    store.create("configmaps", body, "default")
    body["data"]["k"] = "changed"
    assert store.get("configmaps", "a", "default")["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("edit", "status", "generation"),
    [
        (lambda o: o["spec"].update(replicas=3), False, 2),
        (lambda o: o["metadata"].setdefault("labels", {}).update(x="y"), False, 1),
        (lambda o: o["status"].update(readyReplicas=1), True, 1),
        (lambda o: o["spec"].update(replicas=3), True, 1),
    ],
    ids=["spec", "labels", "status", "spec through the status"],
)
def test_generation_counts_spec_changes(store, edit, status, generation):
    deployment(store)
    store.mutate("deployments", "d", edit, "default", status=status)
    found = store.get("deployments", "d", "default")
    assert found["metadata"]["generation"] == generation
    assert found["spec"]["replicas"] == (3 if generation == 2 else 1)


def test_writing_back_without_defaults_is_no_change(store, changes):
    """An operator that renders its template anew each time must not start a rollout."""
    deployment(store)
    store.mutate("deployments", "d", lambda o: o["spec"]["template"].update(spec=POD["spec"]), "default")
    assert [change.type for change in changes] == ["ADDED"]


def test_nodes_have_no_generation(store):
    assert "generation" not in store.create("nodes", {"metadata": {"name": "n"}})["metadata"]


def test_an_old_version_is_refused(store):
    old = store.create("configmaps", {"metadata": {"name": "a"}}, "default")
    store.mutate("configmaps", "a", lambda o: o.update(data={"k": "v"}), "default")
    with pytest.raises(ApiError, match="the object has been modified") as refused:
        store.update("configmaps", store.get("configmaps", "a", "default"), old)
    assert refused.value.code == 409


@pytest.mark.parametrize(
    ("node", "phase", "options", "left"),
    [
        ("n", "Running", {}, 30),
        ("n", "Running", {"gracePeriodSeconds": 5}, 5),
        ("n", "Running", {"gracePeriodSeconds": 0}, None),
        (None, "Pending", {}, None),
        ("n", "Succeeded", {}, None),
    ],
    ids=["default grace", "asked grace", "forced", "not scheduled", "finished"],
)
def test_a_pod_is_deleted_with_grace(store, node, phase, options, left):
    pod(store, node=node)
    store.mutate("pods", "p", lambda o: o["status"].update(phase=phase), "default", status=True)
    store.delete("pods", "p", "default", options)
    found = store.get("pods", "p", "default")
    assert (found and found["metadata"]["deletionGracePeriodSeconds"]) == left


def test_a_pod_that_lost_its_last_finalizer_still_waits_for_its_kubelet(store):
    pod(store, finalizers=["example.com/hold"])
    store.delete("pods", "p", "default")
    store.mutate("pods", "p", lambda o: o["metadata"].pop("finalizers"), "default")
    assert store.get("pods", "p", "default"), "the kubelet has not confirmed its end"
    store.delete("pods", "p", "default", {"gracePeriodSeconds": 0})
    assert store.get("pods", "p", "default") is None


def test_other_objects_go_with_their_last_finalizer(store):
    store.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}, "default")
    store.delete("configmaps", "a", "default")
    assert store.get("configmaps", "a", "default")["metadata"]["deletionTimestamp"]
    store.mutate("configmaps", "a", lambda o: o["metadata"].pop("finalizers"), "default")
    assert store.get("configmaps", "a", "default") is None


def test_a_uid_precondition_protects_the_successor(store):
    pod(store)
    with pytest.raises(ApiError, match="the UID in the precondition") as refused:
        store.delete("pods", "p", "default", {"preconditions": {"uid": "other"}})
    assert refused.value.code == 409
    assert store.get("pods", "p", "default")


def test_a_dry_run_changes_nothing(store, changes):
    pod(store)
    version = store.version
    store.create("configmaps", {"metadata": {"name": "a"}}, "default", dry_run=True)
    store.delete("pods", "p", "default", dry_run=True)
    current = store.get("pods", "p", "default")
    store.update("pods", current, {**current, "metadata": {**current["metadata"], "labels": {"a": "b"}}}, dry_run=True)
    assert (store.version, [change.type for change in changes]) == (version, ["ADDED"])


def test_pods_on_follows_binding_and_end(store):
    pod(store, node=None)
    assert store.pods_on("n") == []
    store.bind("default", "p", "n")
    assert [p["metadata"]["name"] for p in store.pods_on("n")] == ["p"]
    store.delete("pods", "p", "default", {"gracePeriodSeconds": 0})
    assert store.pods_on("n") == []


def test_owned_by_follows_references(store):
    owner = deployment(store)["metadata"]["uid"]
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": owner, "controller": True}
    pod(store, ownerReferences=[ref])
    assert [(plural, obj["metadata"]["name"]) for plural, obj in store.owned_by(owner)] == [("pods", "p")]
    store.mutate("pods", "p", lambda o: o["metadata"].pop("ownerReferences"), "default")
    assert store.owned_by(owner) == []


def test_a_pod_cannot_move(store):
    pod(store)
    with pytest.raises(ApiError) as refused:
        store.mutate("pods", "p", lambda o: o["spec"].update(nodeName="other"), "default")
    assert refused.value.code == 422


def test_a_change_names_its_writer(store, changes):
    with store.acting("controller/test"):
        store.create("configmaps", {"metadata": {"name": "a"}}, "default")
    store.create("configmaps", {"metadata": {"name": "b"}}, "default")
    assert [change.actor for change in changes] == ["controller/test", "cluster"]


def test_a_dying_namespace_takes_nothing_new(store):
    store.delete("namespaces", "default")
    with pytest.raises(ApiError, match="because it is being terminated") as refused:
        store.create("configmaps", {"metadata": {"name": "a"}}, "default")
    assert refused.value.code == 403


def test_logs_end_with_their_pod(store):
    uid = pod(store)["metadata"]["uid"]
    store.logs.append(uid, "c", "hello")
    assert store.logs.lines(uid, "c") == ["hello"]
    store.delete("pods", "p", "default", {"gracePeriodSeconds": 0})
    assert store.logs.lines(uid, "c") == []
