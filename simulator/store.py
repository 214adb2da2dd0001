# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster's state: plain dicts, one thread, every change told to whoever subscribed.

Objects that `get` and `list` return are the stored ones: read, do not write. Writes go through create, mutate, update,
delete, evict and bind, which keep the server's rules (versions, generations, graceful deletion, budgets).
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import uuid
from dataclasses import dataclass

import orjson

from simulator import resources as known
from simulator.api import validation
from simulator.budgets import BudgetIndex
from simulator.defaults import apply_defaults, fill_spec
from simulator.errors import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    details,
    invalid,
    not_found,
    precondition,
    wrong_kind,
)
from simulator.eviction import evict as evict_pod
from simulator.objects import clone, key_of

HISTORY = 20_000
# Finalizers that the garbage collector takes off.
PROPAGATION = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_actor = contextvars.ContextVar("actor", default="cluster")


@dataclass(frozen=True)
class Change:
    """type: ADDED, MODIFIED or DELETED. actor: who wrote (a user agent, "controller/jobs", "kubelet/NODE", …)."""

    type: str
    resource: known.Resource
    object: dict
    old: dict | None
    actor: str
    version: int


class Store:
    """version: where resource versions begin. Whoever asks for changes since an earlier one is told 410 Expired."""

    def __init__(self, clock, version=100):
        self.clock = clock
        self.version = self.compacted = version
        self._resources, self._by_plural = {}, {}
        for resource in known.built_in():
            self.add_resource(resource)
        self._objects = collections.defaultdict(dict)
        self._bytes = {}
        self._on_node = collections.defaultdict(dict)
        self._owned = collections.defaultdict(dict)
        self._budgets = BudgetIndex()
        self.history = collections.defaultdict(lambda: collections.deque(maxlen=HISTORY))
        self.subscribers = []
        self.logs = PodLogs()

    # -- reading
    @property
    def resources(self):
        return list(self._resources.values())

    def resource(self, plural, group=None):
        if group is not None:
            return self._resources.get((group, plural))
        return self._by_plural.get(plural)

    def add_resource(self, resource):
        self._resources[(resource.group, resource.plural)] = resource
        self._by_plural.setdefault(resource.plural, resource)

    def remove_resource(self, resource):
        self._resources.pop((resource.group, resource.plural), None)
        if self._by_plural.get(resource.plural) is resource:
            others = (r for r in self._resources.values() if r.plural == resource.plural)
            self._by_plural[resource.plural] = next(others, None)
        for key in list(self._objects.pop(resource, {})):
            self._bytes.pop((resource, key), None)

    def _as_resource(self, plural):
        return plural if isinstance(plural, known.Resource) else self.resource(plural)

    def get(self, plural, name, namespace=""):
        return self._objects[self._as_resource(plural)].get((namespace, name))

    def list(self, plural, namespace=None):
        found = self._objects[self._as_resource(plural)]
        if namespace is None:
            return list(found.values())
        return [obj for key, obj in found.items() if key[0] == namespace]

    def pods_on(self, node):
        return list(self._on_node[node].values())

    def owned_by(self, uid):
        """[(plural, object)] whose ownerReferences name uid."""
        return list(self._owned[uid].values())

    def pods_of(self, uid):
        return [obj for plural, obj in self._owned[uid].values() if plural == "pods"]

    def budgets_of(self, namespace, pod):
        return self._budgets.of(namespace, pod)

    def encoded(self, resource, obj):
        """The object as it stands in a list (no kind, no apiVersion), encoded once per version."""
        key = (resource, key_of(obj))
        cached = self._bytes.get(key)
        if cached is None or cached[0] is not obj:
            cached = (obj, orjson.dumps({k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}))
            if self._objects[resource].get(key[1]) is obj:
                self._bytes[key] = cached
        return cached[1]

    # -- who writes
    @contextlib.contextmanager
    def acting(self, actor):
        token = _actor.set(actor)
        try:
            yield
        finally:
            _actor.reset(token)

    def subscribe(self, callback):
        self.subscribers.append(callback)

    # -- writing
    def create(self, plural, body, namespace="", dry_run=False):
        resource = self._as_resource(plural)
        obj = clone(body)
        metadata = obj.setdefault("metadata", {})
        if obj.get("kind", resource.kind) != resource.kind:
            raise wrong_kind(obj, resource)
        obj["apiVersion"], obj["kind"] = resource.group_version, resource.kind
        if resource.namespaced:
            self._check_namespace(resource, metadata, namespace)
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                text = "Required value: name or generateName is required"
                raise invalid(resource, "", [("FieldValueRequired", "metadata.name", text)])
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        validation.check_name(resource, metadata["name"])
        if (metadata.get("namespace", ""), metadata["name"]) in self._objects[resource]:
            raise already_exists(resource, metadata["name"])
        metadata.update(uid=str(uuid.uuid4()), creationTimestamp=self.clock.stamp())
        metadata.pop("resourceVersion", None)
        if resource.generation:
            metadata["generation"] = 1
        apply_defaults(resource, obj)
        validation.check(resource, obj)
        if not dry_run:
            self._commit(resource, "ADDED", obj, None)
        return obj

    def _check_namespace(self, resource, metadata, namespace):
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace
        found = self.get("namespaces", namespace)
        if found is None:
            raise not_found(self.resource("namespaces"), namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"namespace {namespace} is being terminated"
            raise ApiError(
                403,
                "Forbidden",
                f'{resource.full_name} "{metadata.get("name")}" is forbidden: unable to create new content in namespace '
                f"{namespace} because it is being terminated",
                causes=[("NamespaceTerminating", why, "metadata.namespace")],
                details=details(resource, metadata.get("name")),
            )

    def update(self, plural, current, new, subresource="", dry_run=False):
        resource = self._as_resource(plural)
        new = clone(new)
        metadata, before = new.setdefault("metadata", {}), current["metadata"]
        name = before["name"]
        if metadata.get("resourceVersion") not in (None, "", before["resourceVersion"]):
            raise conflict(resource, name)
        if metadata.get("uid") not in (None, "", before["uid"]):
            given, recorded = metadata["uid"], before["uid"]
            message = f"Precondition failed: UID in precondition: {given}, UID in object meta: {recorded}"
            raise ApiError(409, "Conflict", message, details=details(resource, name))
        if metadata.get("name", name) != name:
            given = metadata["name"]
            raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
        fixed = (
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "namespace",
            "name",
        )
        for field in fixed:
            if field in before:
                metadata[field] = before[field]
            else:
                metadata.pop(field, None)
        new["apiVersion"], new["kind"] = resource.group_version, resource.kind
        if "spec" in current and not resource.crd:
            new.setdefault("spec", {})
        if subresource != "status":
            fill_spec(resource, new)
        new = self._split_status(resource, current, new, subresource)
        if (
            resource.plural == "pods"
            and not subresource
            and new["spec"].get("nodeName") != current["spec"].get("nodeName")
        ):
            text = "Forbidden: pod updates may not change fields other than image, tolerations, terminationGracePeriodSeconds"
            raise invalid(resource, name, [("FieldValueForbidden", "spec", text)])
        new["metadata"]["resourceVersion"] = before["resourceVersion"]
        if resource.crd or resource.plural in ("nodes", "leases") or new["metadata"] != before:
            validation.check(resource, new, current)
        if new == current or dry_run:
            return new
        dying = before.get("deletionTimestamp") and not new["metadata"].get("finalizers")
        over = resource.plural != "pods" or before.get("deletionGracePeriodSeconds") == 0
        self._commit(resource, "DELETED" if dying and over else "MODIFIED", new, current)
        return new

    def _split_status(self, resource, current, new, subresource):
        if not resource.status:
            return new
        if subresource == "status":
            metadata = dict(current["metadata"])
            for field in ("labels", "annotations"):
                if field in new["metadata"]:
                    metadata[field] = new["metadata"][field]
            return {**current, "metadata": metadata, "status": new.get("status", {})}
        if "status" in current:
            new["status"] = current["status"]
        else:
            new.pop("status", None)
        if new.get("spec") != current.get("spec") and "generation" in current["metadata"]:
            new["metadata"]["generation"] = current["metadata"]["generation"] + 1
        return new

    def mutate(self, plural, name, edit, namespace="", status=False):
        """edit(copy) changes a copy in place, which is then written; None when the object is gone."""
        resource = self._as_resource(plural)
        current = self.get(resource, name, namespace)
        if current is None:
            return None
        new = clone(current)
        edit(new)
        return self.update(resource, current, new, "status" if status else "")

    def delete(self, plural, name, namespace="", options=None, dry_run=False):
        resource = self._as_resource(plural)
        current = self.get(resource, name, namespace)
        if current is None:
            raise not_found(resource, name)
        options = options or {}
        self.check_preconditions(resource, current, options)
        new, metadata = clone(current), current["metadata"]
        finalizers, grace = list(metadata.get("finalizers") or []), 0
        if resource.plural == "pods":
            grace = _grace(current, options)
        if resource.plural == "namespaces":
            new["status"] = {"phase": "Terminating"}
            finalizers = finalizers or ["kubernetes"]
        waits_for = PROPAGATION.get(options.get("propagationPolicy"))
        if waits_for and waits_for not in finalizers:
            finalizers.append(waits_for)
            new["metadata"]["finalizers"] = finalizers
        if resource.plural == "pods" and grace == 0 and not finalizers:
            new["metadata"]["deletionGracePeriodSeconds"] = 0
        if dry_run:
            return new
        if grace == 0 and not finalizers:
            self._commit(resource, "DELETED", new, current)
        elif "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0):
            new["metadata"]["deletionTimestamp"] = self.clock.stamp()
            if resource.plural != "namespaces":
                new["metadata"]["deletionGracePeriodSeconds"] = grace
            if "generation" in metadata and "deletionTimestamp" not in metadata:
                new["metadata"]["generation"] = metadata["generation"] + 1
            self._commit(resource, "MODIFIED", new, current)
        return new

    def check_preconditions(self, resource, obj, options):
        wanted = options.get("preconditions") or {}
        for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            recorded = obj["metadata"][field]
            if wanted.get(field) not in (None, recorded):
                raise precondition(resource, obj["metadata"]["name"], word, wanted[field], recorded)

    def evict(self, namespace, name, eviction, dry_run=False):
        evict_pod(self, namespace, name, eviction, dry_run)

    def bind(self, namespace, pod, node):
        def edit(obj):
            obj["spec"]["nodeName"] = node

        current = self.get("pods", pod, namespace)
        new = clone(current)
        edit(new)
        conditions = new["status"].setdefault("conditions", [])
        conditions[:] = [c for c in conditions if c["type"] != "PodScheduled"]
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": self.clock.stamp()})
        self._commit(self.resource("pods"), "MODIFIED", new, current)

    # -- one change
    def _commit(self, resource, kind, obj, old):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        key = key_of(obj)
        if kind == "DELETED":
            self._objects[resource].pop(key, None)
            self._bytes.pop((resource, key), None)
        else:
            self._objects[resource][key] = obj
        self._index(resource, kind, obj, old)
        change = Change(kind, resource, obj, old, _actor.get(), self.version)
        self.history[resource].append(change)
        for callback in list(self.subscribers):
            callback(change)

    def _index(self, resource, kind, obj, old):
        key, gone = key_of(obj), kind == "DELETED"
        for ref in (old or {}).get("metadata", {}).get("ownerReferences") or []:
            self._owned[ref["uid"]].pop((resource.plural, key), None)
        if not gone:
            for ref in obj["metadata"].get("ownerReferences") or []:
                self._owned[ref["uid"]][(resource.plural, key)] = (resource.plural, obj)
        if resource.plural == "pods":
            before, now = (old or {}).get("spec", {}).get("nodeName"), obj["spec"].get("nodeName")
            if before and (gone or before != now):
                self._on_node[before].pop(key, None)
            if now and not gone:
                self._on_node[now][key] = obj
            if gone:
                self.logs.forget(obj["metadata"]["uid"])
        elif resource.plural == "poddisruptionbudgets":
            if gone:
                self._budgets.remove(obj)
            else:
                self._budgets.put(obj, old)


def _grace(pod, options):
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.get("gracePeriodSeconds")
    return pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace


class PodLogs:
    """Lines of containers, kept until their pod object is gone."""

    def __init__(self):
        self._lines = collections.defaultdict(lambda: collections.defaultdict(list))

    def append(self, uid, container, line):
        self._lines[uid][container].append(line)

    def lines(self, uid, container):
        return self._lines[uid][container] if uid in self._lines else []

    def forget(self, uid):
        self._lines.pop(uid, None)
