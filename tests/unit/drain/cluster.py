# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small cluster in the test's own process: lists, watches and evictions of one node, with answers scripted per pod.

Budgets are kept as the API server and its controller do: an eviction writes `disruptedPods`, the replacement gives the
room back.
"""

from __future__ import annotations

import copy
import itertools
import queue
import threading
import time

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.budgets import covering, spends
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Listing

POD_MISSING = errors.NotFound("pods not found", 404, "NotFound", details={"kind": "pods"})


def exhausted(budget):
    text = f"The disruption budget {budget['metadata']['name']} needs more"
    return errors.TooManyRequests("Cannot evict pod", 429, "TooManyRequests", [("DisruptionBudget", text, "")])


class Cluster:
    """script: {pod name: [ApiError | function(cluster, pod) | None]}, taken one by one before the usual answer.

    ends_s: seconds between eviction and end of a pod (None: never). restores: whether a pod that ended gives its budget
    the room back (a replacement elsewhere became Ready).
    """

    host = "https://fake"

    def __init__(self, node, pods, pdbs=(), daemonsets=(), script=None, ends_s=0.02, restores=True, forbidden=()):
        self._lock = threading.RLock()
        self._versions = itertools.count(1000)
        self._watchers = []
        self.store = {"nodes": {}, "pods": {}, "poddisruptionbudgets": {}, "daemonsets": {}}
        for kind, items in (
            ("nodes", [node]),
            ("pods", pods),
            ("poddisruptionbudgets", pdbs),
            ("daemonsets", daemonsets),
        ):
            for item in items:
                self.store[kind][item["metadata"]["uid"]] = copy.deepcopy(item)
        self.script = {name: list(answers) for name, answers in (script or {}).items()}
        self.ends_s = ends_s
        self.restores = restores
        self.forbidden = set(forbidden)
        self.evictions = []
        self.graces = []
        self.reads = []
        self.requests = 0
        self.guard = lambda: None

    # what Kube offers
    def server_time(self):
        return "2026-12-01T12:00:00Z"

    def list(self, path, **_query):
        kind = self._kind(path)
        with self._lock:
            return Listing(copy.deepcopy(list(self.store[kind].values())), "1")

    def watch(self, path, _version, **_query):
        kind, events = self._kind(path), queue.Queue()
        with self._lock:
            self._watchers.append((kind, events))
            for item in self.store[kind].values():
                events.put(("ADDED", copy.deepcopy(item)))
        while True:
            yield events.get()

    def get(self, path, **_query):
        self._count()
        if "leases" in path:
            raise errors.NotFound("no lease", 404, details={"kind": "leases"})
        self.reads.append(path)
        name = path.rpartition("/")[2]
        kind = "pods" if "/pods/" in path else "nodes"
        found = [item for item in self.store[kind].values() if item["metadata"]["name"] == name]
        if not found:
            raise errors.NotFound(f'{kind} "{name}" not found', 404, "NotFound", details={"kind": kind, "name": name})
        return copy.deepcopy(found[0])

    def create(self, _path, body, **_query):
        self._count()
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}

    def patch(self, _path, _body, **_query):
        self._count()
        return {"metadata": {"resourceVersion": "2"}}

    def evict(self, _namespace, name, uid, grace_period_s=None, dry_run=False):
        self.guard()
        self._count()
        assert not dry_run
        self.evictions.append((name, uid))
        self.graces.append(grace_period_s)
        answers = self.script.get(name)
        answer = answers.pop(0) if answers else None
        if callable(answer):
            answer = answer(self, self.by_name(name))
        if answer == "swallowed":
            return {}
        if answer:
            raise answer
        return self._evict(name, uid)

    # what the test and the cluster's controllers do
    def by_name(self, name, kind="pods"):
        return next((i for i in self.store[kind].values() if i["metadata"]["name"] == name), None)

    def put(self, kind, item, event="MODIFIED"):
        """Store a changed object and tell the watchers."""
        with self._lock:
            item = copy.deepcopy(item)
            item["metadata"]["resourceVersion"] = str(next(self._versions))
            if event == "DELETED":
                self.store[kind].pop(item["metadata"]["uid"], None)
            else:
                self.store[kind][item["metadata"]["uid"]] = item
            for watched, events in self._watchers:
                if watched == kind:
                    events.put((event, copy.deepcopy(item)))

    def end(self, uid):
        """The kubelet reports a pod gone."""
        with self._lock:
            pod = self.store["pods"].get(uid)
            if pod is None:
                return
            self.put("pods", pod, "DELETED")
            for pdb in covering(pod, self.store["poddisruptionbudgets"].values()) if self.restores else ():
                status = pdb["status"]
                status["disruptedPods"].pop(pod["metadata"]["name"], None)
                status["disruptionsAllowed"] += 1
                self.put("poddisruptionbudgets", pdb)

    def _evict(self, name, uid):
        with self._lock:
            pod = self.by_name(name)
            if pod is None:
                raise POD_MISSING
            for pdb in covering(pod, self.store["poddisruptionbudgets"].values()):
                if not spends(pod, pdb):
                    continue
                if pdb["status"]["disruptionsAllowed"] < 1:
                    raise exhausted(pdb)
                pdb["status"]["disruptionsAllowed"] -= 1
                pdb["status"]["disruptedPods"][name] = "now"
                self.put("poddisruptionbudgets", pdb)
            if pod["metadata"]["uid"] != uid:
                raise errors.Conflict("the UID in the precondition does not match", 409, details={"kind": "Pod"})
            pod["metadata"]["deletionTimestamp"] = "2026-12-01T12:00:30Z"
            pod["metadata"]["deletionGracePeriodSeconds"] = 30
            self.put("pods", pod)
        if self.ends_s is not None and not pod["metadata"].get("finalizers"):
            threading.Timer(self.ends_s, self.end, [uid]).start()
        return {}

    def _kind(self, path):
        self._count()
        kind = path.rpartition("/")[2]
        if kind in self.forbidden:
            raise errors.Forbidden(f"{kind} is forbidden", 403, "Forbidden", request=f"GET {path}")
        return kind

    def _count(self):
        with self._lock:
            self.requests += 1


def eventually(condition, within_s=5.0):
    """Wait for something another thread brings about."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.005)
