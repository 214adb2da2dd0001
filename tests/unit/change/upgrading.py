# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small fleet in the test's own process, and an upgrade controller that wakes on node labels, as the real one does."""

from __future__ import annotations

import copy
import itertools
import json
import queue
import threading
from datetime import datetime, timedelta, timezone

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Listing

# The operator looks by itself, too.
TICK_S = 0.5
NEW, OLD = "580.95.05", "575.57.08"
STATE = "nvidia.com/gpu-driver-upgrade-state"
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
INITIAL = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
VERSION = "nvidia.com/cuda.driver-version.full"
MARK = "lifecycle.gpuops.io/skip-set-by"
HOLD = "lifecycle.gpuops.io/hold"
START = datetime(2026, 12, 1, 10, tzinfo=timezone.utc)
DRIVER_LABELS = {"app.kubernetes.io/component": "nvidia-driver"}
REF = {"kind": "DaemonSet", "uid": "ds", "controller": True, "name": "driver"}
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": HOLD, "operator": "Exists"}]


class Killed(BaseException):
    """SIGKILL, as far as an operation can tell: nothing after it runs."""


class Fleet:
    """Three nodes a, b, c with driver and validator pods, one ClusterPolicy.

    kill_at: the n-th write of the operation is carried out, and then the operation dies. never: what does not become
    ready ("validator", "driver"). behaves: False for an operator that forgets to note that a node was cordoned. asleep:
    the operator does nothing.
    """

    host = "https://fake"

    def __init__(self, kill_at=None, never=(), behaves=True, asleep=False):
        self._lock = threading.RLock()
        self._versions = itertools.count(100)
        self._clock = itertools.count(1)
        self._watchers = []
        self.store = {}
        self.writes = []
        self.kill_at, self.never, self.behaves, self.asleep = kill_at, set(never), behaves, asleep
        self.states = []
        self.policy = self._add("clusterpolicies", {"metadata": {"name": "cluster-policy"}, "spec": _policy()})
        self._add("daemonsets", _daemonset())
        self._revision("h1", 1)
        for name in "abc":
            self._add("nodes", _node(name))
            self._pod(name, "driver", "h1")
            self._pod(name, "validator")

    # -- what Kube offers
    def server_time(self):
        return f"{START + timedelta(seconds=next(self._clock)):%Y-%m-%dT%H:%M:%SZ}"

    def get(self, path, **_query):
        kind, name = _route(path)
        return copy.deepcopy(self.find(kind, name))

    def list(self, path, **query):
        kind, _name = _route(path)
        with self._lock:
            return Listing([copy.deepcopy(o) for o in self.store.get(kind, {}).values() if _matches(o, query)], "1")

    def watch(self, path, _version, **query):
        kind, events = _route(path)[0], queue.Queue()
        with self._lock:
            self._watchers.append((kind, query, events))
            for item in self.store.get(kind, {}).values():
                events.put(("ADDED", copy.deepcopy(item)))
        while True:
            event = events.get()
            if _matches(event[1], query):
                yield event

    def create(self, path, body, **_query):
        with self._lock:
            return copy.deepcopy(self._add(_route(path)[0], body))

    def patch(self, path, body, **_query):
        kind, name = _route(path)
        with self._lock:
            found = self.find(kind, name)
            version = body["metadata"]["resourceVersion"]
            if version != found["metadata"]["resourceVersion"]:
                raise errors.Conflict("changed", 409, "Conflict")
            answer = copy.deepcopy(self._put(kind, _merge(found, body)))
            if kind != "leases":
                self.writes.append((kind, name, body))
                self._react(kind, found, answer)
                if len(self.writes) == self.kill_at:
                    raise Killed
        return answer

    # -- what tests look at and do
    def find(self, kind, name):
        found = [o for o in self.store.get(kind, {}).values() if o["metadata"]["name"] == name]
        if not found:
            raise errors.NotFound(f"{name} not found", 404, "NotFound", details={"kind": kind, "name": name})
        return found[0]

    def node(self, name):
        return self.find("nodes", name)

    def labels(self, name):
        return self.node(name)["metadata"]["labels"]

    def annotations(self, name):
        return self.node(name)["metadata"].get("annotations") or {}

    def is_cordoned(self, name):
        return bool(self.node(name)["spec"].get("unschedulable"))

    def edit(self, kind, name, change):
        with self._lock:
            obj = copy.deepcopy(self.find(kind, name))
            change(obj)
            return self._put(kind, obj)

    def label(self, name, key, value):
        self.edit("nodes", name, lambda o: _set(o["metadata"]["labels"], key, value))

    def annotate(self, name, key, value):
        self.edit("nodes", name, lambda o: _set(o["metadata"].setdefault("annotations", {}), key, value))

    def hold(self, name):
        """Cordoned and held by gpuops, as after the hold and the drain."""

        def change(obj):
            obj["spec"]["unschedulable"] = True
            held = json.dumps([{"owner": "gpuops", "cordoned_by_us": True}])
            obj["metadata"].setdefault("annotations", {})[HOLD] = held

        self.edit("nodes", name, change)

    def add_workload(self, node):
        pod = _pod("trainer", node, {}, [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}])
        pod["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": "job", "controller": True, "name": "trainer"}]
        self._add("pods", {**pod, "status": {"phase": "Running"}})

    # -- the operator
    def wake(self):
        with self._lock:
            if self.asleep:
                return
            for name in "abc":
                while self._step(name):
                    pass

    def _react(self, kind, before, after):
        if kind == "clusterpolicies":
            version = after["spec"]["driver"]["version"]
            self._revision({OLD: "h1", NEW: "h2"}[version], next(self._versions))
            self.wake()
        watched = [(o["metadata"].get("labels") or {}) for o in (before, after)]
        if kind == "nodes" and any(watched[0].get(k) != watched[1].get(k) for k in (STATE, SKIP)):
            self.wake()

    def _step(self, name):
        """One transition of a node; False when it stays."""
        state, driver = self.labels(name).get(STATE, ""), self._pod_of(name, "driver")
        if state in ("", "upgrade-done") and driver["metadata"]["labels"]["controller-revision-hash"] != self._newest():
            if self.is_cordoned(name) and self.behaves:
                self.annotate(name, INITIAL, "true")
            return self._move(name, "upgrade-required")
        if state == "upgrade-required" and self.labels(name).get(SKIP) != "true" and self.is_cordoned(name):
            self._restart(name)
            return self._move(name, "pod-restart-required")
        if state == "pod-restart-required" and _is_ready(driver):
            return self._move(name, "validation-required")
        if state == "validation-required" and _is_ready(self._pod_of(name, "validator")):
            if INITIAL not in self.annotations(name):
                self.edit("nodes", name, lambda o: o["spec"].pop("unschedulable", None))
            self._move(name, "upgrade-done")
            self.annotate(name, INITIAL, None)
        return False

    def _move(self, name, state):
        self.states.append((name, state))
        self.label(name, STATE, state)
        self.note(f"Successfully updated node state label to {state}")
        return True

    def give_up(self, name):
        """What the operator does 600 s after the driver was Ready and the validator not."""
        with self._lock:
            self.note("validation took too long", "Warning")
            for state in ("upgrade-failed", "upgrade-done"):
                self._move(name, state)
            self.annotate(name, INITIAL, None)

    def note(self, message, kind="Normal"):
        at = self.server_time()
        self._add("events", {"metadata": {"name": at}, "type": kind, "message": message, "lastTimestamp": at})

    def _restart(self, name):
        """The operator deletes the driver pod; driver-manager the validator; both come back by themselves, unseen."""
        for kind in ("driver", "validator"):
            self._remove("pods", self._pod_of(name, kind))
        self.label(name, VERSION, None)
        self._pod(name, "driver", self._newest(), ready=False)
        self._pod(name, "validator", ready=False)

        def ready():
            with self._lock:
                if "driver" in self.never:
                    return
                self.make_ready(name, "driver")
                self.label(name, VERSION, self.find("clusterpolicies", "cluster-policy")["spec"]["driver"]["version"])
                if "validator" not in self.never:
                    self.make_ready(name, "validator")

        threading.Timer(0.02, ready).start()
        threading.Timer(TICK_S, self.wake).start()

    def make_ready(self, name, kind):
        self.edit("pods", f"{kind}-{name}", lambda o: o.update(status=_running(self.server_time())))

    def _pod_of(self, node, kind):
        return self.find("pods", f"{kind}-{node}")

    def _newest(self):
        newest = max(self.store["controllerrevisions"].values(), key=lambda r: r["revision"])
        return newest["metadata"]["labels"]["controller-revision-hash"]

    # -- the store
    def _revision(self, hash_, number):
        """The DaemonSet controller renumbers the revision of a template that comes back."""
        labels = {"controller-revision-hash": hash_}
        for found in list(self.store.get("controllerrevisions", {}).values()):
            if found["metadata"]["labels"] == labels:
                self._put("controllerrevisions", {**copy.deepcopy(found), "revision": number})
                return
        metadata = {"name": f"driver-{hash_}", "labels": labels, "ownerReferences": [REF]}
        self._add("controllerrevisions", {"metadata": metadata, "revision": number})

    def _pod(self, node, kind, hash_=None, ready=True):
        labels = {**DRIVER_LABELS, "controller-revision-hash": hash_} if hash_ else {"app": "nvidia-operator-validator"}
        pod = _pod(f"{kind}-{node}", node, labels, [{}])
        self._add("pods", {**pod, "status": _running(self.server_time()) if ready else {"phase": "Pending"}})

    def _add(self, kind, obj):
        obj = copy.deepcopy(obj)
        obj["metadata"].setdefault("uid", f"uid-{kind}-{next(self._versions)}")
        return self._put(kind, obj, "ADDED")

    def _put(self, kind, obj, event="MODIFIED"):
        with self._lock:
            obj["metadata"]["resourceVersion"] = str(next(self._versions))
            self.store.setdefault(kind, {})[obj["metadata"]["uid"]] = obj
            self._tell(kind, event, obj)
            return obj

    def _remove(self, kind, obj):
        with self._lock:
            del self.store[kind][obj["metadata"]["uid"]]
            self._tell(kind, "DELETED", obj)

    def _tell(self, kind, event, obj):
        for watched, _query, events in self._watchers:
            if watched == kind:
                events.put((event, copy.deepcopy(obj)))


def _policy():
    rules = {"autoUpgrade": True, "drain": {"enable": False}, "podDeletion": {"timeoutSeconds": 300}}
    return {"driver": {"enabled": True, "version": OLD, "upgradePolicy": rules}}


def _daemonset():
    template = {"metadata": {"labels": DRIVER_LABELS}, "spec": {"tolerations": TOLERATIONS}}
    return {
        "metadata": {"name": "driver", "uid": "ds"},
        "spec": {"template": template},
        "status": {"desiredNumberScheduled": 3},
    }


def _node(name):
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {STATE: "upgrade-done", VERSION: OLD}},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def _pod(name, node, labels, containers):
    metadata = {"name": name, "namespace": "gpu-operator", "labels": dict(labels), "ownerReferences": [REF]}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": containers}}


def _running(at):
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}],
        "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": at}}}],
    }


def _is_ready(pod):
    return bool(pod["status"].get("conditions"))


def _route(path):
    """(plural, name or None) of a path."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return parts[0], parts[1] if len(parts) > 1 else None


def _matches(obj, query):
    """The selectors that the operation uses."""
    key, _equals, value = query.get("fieldSelector", "").partition("=")
    if key == "metadata.name" and obj["metadata"]["name"] != value:
        return False
    if key == "spec.nodeName" and obj["spec"].get("nodeName") != value:
        return False
    key, _equals, value = query.get("labelSelector", "").partition("=")
    return not key or (obj["metadata"].get("labels") or {}).get(key) == value


def _merge(obj, patch):
    if not isinstance(patch, dict):
        return patch
    merged = copy.deepcopy(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _set(mapping, key, value):
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
