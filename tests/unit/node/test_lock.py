# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run at a time: who holds, who may take over, who has to stop."""

from __future__ import annotations

import json
import threading

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Listing
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import lock
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Task


class LeaseKube:
    """One Lease; `before_patch` runs ahead of each write, as another run's write would."""

    def __init__(self, holder=None, duration_s=1):
        self.lease, self.version, self.before_patch, self.gone = None, 0, None, threading.Event()
        if holder is not None:
            self._set({"spec": {"holderIdentity": holder, "leaseDurationSeconds": duration_s}, "metadata": {}})

    def _set(self, lease):
        self.version += 1
        lease["metadata"].update(uid="u", name="l", resourceVersion=str(self.version))
        self.lease = lease
        return json.loads(json.dumps(lease))

    def get(self, _path, **_query):
        if self.lease is None:
            raise errors.NotFound("no", 404, details={"name": "l"})
        return json.loads(json.dumps(self.lease))

    def create(self, _path, body, **_query):
        return self._set(body)

    def patch(self, _path, body, **_query):
        if self.before_patch:
            act, self.before_patch = self.before_patch, None
            act()
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise errors.Conflict("stale", 409)
        merged = {
            "metadata": {**self.lease["metadata"], **body["metadata"]},
            "spec": {**self.lease["spec"], **body["spec"]},
        }
        return self._set(merged)

    def list(self, _path, **_query):
        return Listing([self.get("")], str(self.version))

    def watch(self, _path, version, **_query):
        seen = version
        while not self.gone.wait(0.05):
            if str(self.version) != seen:
                seen = str(self.version)
                yield "MODIFIED", self.get("")

    def renew_as(self, holder):
        self._set({"metadata": dict(self.lease["metadata"]), "spec": {**self.lease["spec"], "holderIdentity": holder}})


def task_of(kube, run="me", lock_s=30):
    said = []
    task = Task("x", {"lock_s": lock_s}, run=run, kube=kube, progress=said.append)
    task.said = said
    return task


def test_a_free_node_is_taken_and_kept_after_the_operation():
    kube = LeaseKube()
    with lock.node_lock(task_of(kube), "a"):
        assert kube.lease["spec"]["holderIdentity"] == "me"
    assert kube.lease["spec"]["holderIdentity"] == "me"
    lock.release_node_lock(task_of(kube), "a")
    assert kube.lease["spec"]["holderIdentity"] == ""


def test_a_pool_is_given_back_at_once():
    kube = LeaseKube()
    with lock.pool_lock(task_of(kube), "p"):
        pass
    assert kube.lease["spec"]["holderIdentity"] == ""


def test_a_run_that_shows_no_life_is_taken_over_and_that_is_recorded():
    kube = LeaseKube("dead-run", duration_s=1)
    task = task_of(kube)
    with lock.node_lock(task, "a"):
        assert kube.lease["spec"]["holderIdentity"] == "me"
    assert kube.lease["metadata"]["annotations"] == {"lifecycle.gpuops.io/taken-over-from": "dead-run"}
    assert kube.lease["spec"]["leaseTransitions"] == 1
    assert any("dead-run" in line for line in task.said)
    kube.gone.set()


def test_a_living_run_is_not_disturbed():
    kube = LeaseKube("other", duration_s=20)
    threading.Timer(0.3, kube.renew_as, ["other"]).start()
    with pytest.raises(Failed, match="being worked on by run other"), lock.node_lock(task_of(kube), "a"):
        raise AssertionError("it was entered")
    kube.gone.set()


def test_two_runs_race_for_a_free_lease_and_one_wins():
    kube = LeaseKube("", duration_s=20)
    kube.before_patch = lambda: kube.renew_as("other")
    threading.Timer(0.5, kube.renew_as, ["other"]).start()
    with pytest.raises(Failed, match="run other"), lock.node_lock(task_of(kube), "a"):
        raise AssertionError("both entered")
    kube.gone.set()


def test_who_lost_the_lease_writes_nothing_more():
    kube, task = LeaseKube(), task_of(LeaseKube())
    task = task_of(kube, lock_s=30)
    with lock.node_lock(task, "a"):
        task.guard()
        kube.renew_as("other")
        task.monotonic = lambda: 1e9
        with pytest.raises(Failed, match="taken node/a over"):
            task.guard()
    task.guard()


def test_check_mode_takes_no_lock():
    kube = LeaseKube()
    task = Task("x", {}, check_mode=True, run="me", kube=kube)
    with lock.node_lock(task, "a"), lock.pool_lock(task, "p"):
        assert kube.lease is None


def test_a_lease_that_another_run_took_is_left_alone():
    kube = LeaseKube("other")
    lock.release_node_lock(task_of(kube), "a")
    assert kube.lease["spec"]["holderIdentity"] == "other"
