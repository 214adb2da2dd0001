# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster in the test's own process that knows one node and its Jobs; what happens to a Job's pod is scripted."""

from __future__ import annotations

import copy
import queue
from pathlib import Path

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Listing
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Task

FIXTURES = Path(__file__).parents[2] / "fixtures"
NODE = {"metadata": {"name": "gpu-node-a", "uid": "node-uid"}}
NOW = "2026-12-01T12:00:00Z"


def pod(phase="Pending", rc=None, waiting=None, unschedulable="", reason="", message=""):
    """A pod as the kubelet reports it."""
    status = {"phase": phase}
    if reason:
        status.update(reason=reason, message=message)
    if unschedulable:
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "message": unschedulable}]
    state = {"terminated": {"exitCode": rc}} if rc is not None else {"waiting": waiting} if waiting else None
    if phase == "Running" and state is None:
        state = {"running": {"startedAt": NOW}}
    if state:
        status["containerStatuses"] = [{"name": "diagnostic", "state": state}]
    metadata = {"name": "dcgmi-diag-x", "uid": "pod-uid", "creationTimestamp": NOW}
    return {"metadata": metadata, "status": status}


def ended(rc=0):
    return pod("Succeeded" if rc == 0 else "Failed", rc=rc)


GONE = "gone"


class Jobs:
    """pods: what the watch of pods shows, one state after another (GONE: deleted). condition: what the Job ends with.

    log: text, an ApiError, or a list of them (one per call). left: a Job that is there already. refuse: {verb: error}.
    """

    host = "https://fake"

    def __init__(self, pods=(), log="", left=None, refuse=None, condition=None, events=(), unseen=None):
        self.pods = list(pods)
        self.logs = list(log) if isinstance(log, list) else [log]
        self.job = copy.deepcopy(left)
        self.refuse = dict(refuse or {})
        self.condition = condition
        self.events = list(events)
        self.unseen = unseen
        self.created, self.deleted, self.requests = [], [], []

    def server_time(self):
        return NOW

    def get(self, path, **_query):
        self._note("get", path)
        if "/leases/" in path:
            raise errors.NotFound("no lease", 404, details={"kind": "leases"})
        if path.endswith("/nodes/gpu-node-a"):
            return copy.deepcopy(NODE)
        if "/jobs/" in path and self.job:
            return copy.deepcopy(self.job)
        raise errors.NotFound(f"{path} not found", 404, "NotFound")

    def create(self, path, body, **_query):
        self._note("create", path)
        if "leases" in path:
            return {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        if self.job:
            raise errors.Conflict("exists", 409, "AlreadyExists")
        self.job = copy.deepcopy(body)
        self.job["metadata"].update(uid=f"job-{len(self.created) + 1}", resourceVersion="1")
        self.created.append(self.job)
        return copy.deepcopy(self.job)

    def patch(self, path, _body, **_query):
        self._note("patch", path)
        return {"metadata": {"resourceVersion": "2"}}

    def delete(self, path, body=None, **_query):
        self._note("delete", path)
        self.deleted.append(body["preconditions"]["uid"])
        self.job = None
        return {}

    def list(self, path, **_query):
        self._note("list", path)
        kind = path.rpartition("/")[2]
        if kind == "jobs":
            return Listing([self._job()] if self.job else [], "1")
        if kind == "events":
            return Listing(self.events, "1")
        asked = sum(1 for request in self.requests if request.startswith("list /api/v1/namespaces/gpuops-system/pods"))
        return Listing([self.unseen] if self.unseen and asked > 1 else [], "1")

    def watch(self, path, _version, **query):
        mine = self.job and query.get("labelSelector") == f"batch.kubernetes.io/controller-uid={self._uid()}"
        if path.endswith("/pods") and mine:
            for state in self.pods:
                gone = state == GONE
                item = copy.deepcopy(pod() if gone else state)
                item["metadata"]["resourceVersion"] = "2"
                yield ("DELETED" if gone else "MODIFIED"), item
        queue.Queue().get()  # nothing more ever happens

    def log(self, _namespace, _name, _container, **_query):
        self._note("log", "")
        answer = self.logs.pop(0) if len(self.logs) > 1 else self.logs[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _uid(self):
        return self.job["metadata"]["uid"]

    def _job(self):
        found = copy.deepcopy(self.job)
        if self.condition:
            found["status"] = {"conditions": [self.condition]}
        return found

    def _note(self, verb, path):
        self.requests.append(f"{verb} {path}")
        error = self.refuse.get(f"{verb} {path.rpartition('/')[2]}") or self.refuse.get(verb)
        if isinstance(error, list):
            error = error.pop(0) if error else None
        if error and "leases" not in path:
            raise error


def task_for(name, spec, kube, check_mode=False, **params):
    """A Task with the spec's defaults, that collects what it says."""
    values = {key: option.get("default") for key, option in spec.items()}
    said = []
    task = Task(
        name, {**values, "node": "gpu-node-a", **params}, check_mode=check_mode, run="run-1", kube=kube,
        progress=said.append, warn=said.append,
    )  # fmt: skip
    task.sleep = lambda _seconds: None
    task.said = said
    return task


def sample(folder, name):
    return (FIXTURES / folder / name).read_text()
