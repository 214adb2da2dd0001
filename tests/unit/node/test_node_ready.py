# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for a node: until every check holds, or with the names of those that do not."""

from __future__ import annotations

import copy
import queue

import pytest
from test_readiness import REVISIONS, driver, ready_node, validator

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Listing
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import Forbidden, NotFound
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import node_ready
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Task


class Cluster:
    """A node, its pods and the revisions; tell() is one event of their watches. Nothing can be written."""

    host = "https://fake"

    def __init__(self, node, pods, forbidden=()):
        for index, obj in enumerate([*pods, *REVISIONS]):
            obj["metadata"].setdefault("uid", f"uid-{index}-{obj['metadata']['name']}")
        self.lists = {"nodes": [node], "pods": pods, "controllerrevisions": REVISIONS}
        self.events = {kind: queue.Queue() for kind in self.lists}
        self.forbidden = forbidden

    def get(self, path):
        name = path.rpartition("/")[2]
        if name != self.lists["nodes"][0]["metadata"]["name"]:
            raise NotFound("no node", 404, details={"kind": "nodes", "name": name})
        return self.lists["nodes"][0]

    def list(self, path, **_query):
        kind = path.rpartition("/")[2]
        if kind in self.forbidden:
            raise Forbidden(f"{kind} is forbidden", 403)
        return Listing(copy.deepcopy(self.lists[kind]), "1")

    def watch(self, path, _version, **_query):
        while True:
            yield self.events[path.rpartition("/")[2]].get()

    def tell(self, kind, obj, event="MODIFIED"):
        obj["metadata"]["resourceVersion"] = "2"
        self.events[kind].put((event, obj))


def task_for(cluster, check_mode=False, **params):
    values = {name: option.get("default") for name, option in node_ready.ARGUMENT_SPEC.items()}
    values.update({"node": "a", "expected_gpus": 8, "driver_version": "580.95.05", "timeout_s": 5, **params})
    task = Task("node_ready", values, check_mode=check_mode, run="run-1", kube=cluster)
    task.lines = []
    task.progress = task.lines.append
    return task


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(node_ready, "PROGRESS_S", 0.05)


def unfinished():
    node = ready_node()
    node["metadata"]["labels"]["nvidia.com/gpu.deploy.dcgm"] = "paused-for-driver-upgrade"
    return node


def test_a_ready_node_is_not_waited_for():
    task = task_for(Cluster(ready_node(), [driver(), validator()]))
    result = node_ready.run(task)
    assert result["ready"] is True
    assert [check["ok"] for check in result["checks"] if check["applies"]] == [True] * 11
    assert task.changed is False
    assert task.lines == []


def test_it_waits_says_for_what_and_goes_on_when_that_holds():
    cluster = Cluster(unfinished(), [driver(), validator()])
    task = task_for(cluster)

    def mend(line):
        task.lines.append(line)
        cluster.tell("nodes", ready_node())

    task.progress = mend
    assert node_ready.run(task)["ready"] is True
    assert task.lines[0] == "waits until ready: operands are paused: dcgm"


def test_at_the_deadline_it_fails_with_what_is_missing():
    cluster = Cluster(unfinished(), [driver(), validator(ready=False)])
    with pytest.raises(Failed) as failed:
        node_ready.run(task_for(cluster, timeout_s=0))
    for part in ("a did not become ready within 0 s", "operands: operands are paused: dcgm", "validator", "kubectl"):
        assert part in failed.value.message
    assert failed.value.result["ready"] is False
    assert {c["name"] for c in failed.value.result["checks"] if c["ok"] is False} == {"operands", "validator"}


def test_in_check_mode_it_tells_and_does_not_wait():
    result = node_ready.run(task_for(Cluster(unfinished(), [driver(), validator()]), check_mode=True))
    assert result["ready"] is False


@pytest.mark.parametrize("event", ["DELETED", "replaced"])
def test_a_node_that_is_not_the_same_any_more_is_not_waited_for(event):
    cluster = Cluster(unfinished(), [driver(), validator()])
    task = task_for(cluster)

    def lose(_line):
        cluster.tell("nodes", unfinished(), "DELETED")
        if event == "replaced":
            node = ready_node()
            node["metadata"]["uid"] = "another"
            cluster.tell("nodes", node, "ADDED")

    task.progress = lose
    with pytest.raises(Failed, match="The node a is gone"):
        node_ready.run(task)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"node": "z"}, "no node z"),
        ({"node_uid": "another"}, "not the one this began with"),
        ({"after": "yesterday"}, "after is not a time like"),
    ],
)
def test_bad_input(params, says):
    with pytest.raises(Failed, match=says):
        node_ready.run(task_for(Cluster(ready_node(), [driver(), validator()]), **params))


def test_what_may_not_be_read_is_an_error_and_not_an_unready_node():
    with pytest.raises(Forbidden):
        node_ready.run(task_for(Cluster(ready_node(), [driver(), validator()], forbidden=["pods"])))
