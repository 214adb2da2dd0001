# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a diagnostic program as a Job on a node: create, wait, keep its log, delete. Whatever goes wrong is `unknown`."""

from __future__ import annotations

import contextlib

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import ApiError, Conflict, NotFound
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.mirror import Mirror
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import job
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.execution import Execution

PROGRESS_S = 15
LOG_LIMIT = 4 * 2**20
DELETE_S = 120


def run(task, wanted, timeout_s):
    """Execution of the Job `wanted` (job.body). The Job is deleted whatever happens, as far as the API allows."""
    created = _start(task, wanted)
    uid = created["metadata"]["uid"]
    started, clock = task.kube.server_time(), task.monotonic()
    try:
        ended = _wait(task, wanted, uid, timeout_s + job.KILL_AFTER_S + job.START_S)
        rc, text, problem, cause = _collect(task, ended)
    finally:
        _delete(task, wanted["metadata"]["name"], uid)
    return Execution(rc, text, started, task.kube.server_time(), round(task.monotonic() - clock, 1), problem, cause)


def _start(task, wanted):
    """Create the Job; what an earlier run left under its name is removed first, so that no old result is taken for new."""
    name = wanted["metadata"]["name"]
    for _attempt in range(3):
        try:
            return task.kube.create(paths.jobs(keys.NAMESPACE), wanted)
        except Conflict:
            left = _get(task, name)
            if left is None:
                continue
            if left["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") != "gpuops-lifecycle":
                raise Failed(
                    f"A Job {keys.NAMESPACE}/{name} exists that is not of this collection; rename or delete it."
                ) from None
            task.progress(f"removes the Job {name} that an earlier run left")
            _delete(task, name, left["metadata"]["uid"])
            _wait_gone(task, name, left["metadata"]["uid"])
    raise Failed(
        f"The Job {keys.NAMESPACE}/{name} of an earlier run does not go away; kubectl -n {keys.NAMESPACE} describe job {name}"
    )


def _get(task, name):
    try:
        return task.kube.get(paths.job(keys.NAMESPACE, name))
    except NotFound:
        return None


def _wait_gone(task, name, uid):
    """Until the Job and its pods are gone: only then is the GPU free for the next one."""
    mirror = Mirror(task.kube)
    mirror.add("jobs", paths.jobs(keys.NAMESPACE), fieldSelector=f"metadata.name={name}")
    mirror.add("pods", paths.pods(keys.NAMESPACE), labelSelector=f"batch.kubernetes.io/controller-uid={uid}")
    with mirror:
        mirror.wait_for(lambda: uid not in mirror.objects("jobs") and not mirror.objects("pods"), DELETE_S)


def _wait(task, wanted, uid, limit_s):
    """The pod at its end; None when none ended in time. Progress says what is waited for."""
    name, began = wanted["metadata"]["name"], task.monotonic()
    mirror = Mirror(task.kube)
    mirror.add("pods", paths.pods(keys.NAMESPACE), labelSelector=f"batch.kubernetes.io/controller-uid={uid}")
    mirror.add("jobs", paths.jobs(keys.NAMESPACE), fieldSelector=f"metadata.name={name}")
    last = {}

    def pod():
        found = list(mirror.objects("pods").values())
        last.update(pod=found[0] if found else last.get("pod"), here=bool(found))
        return found[0] if found else None

    def over():
        current = pod()
        if current is not None:
            return job.exit_code(current) is not None or bool(job.failed_without_running(current))
        conditions = [
            c for j in mirror.objects("jobs").values() for c in (j.get("status") or {}).get("conditions") or []
        ]
        finished = any(c["type"] in ("Failed", "Complete") and c["status"] == "True" for c in conditions)
        return finished or uid not in mirror.objects("jobs") or bool(last.get("pod"))

    def tell():
        current = pod()
        what = "a pod" if current is None else job.waiting_for(current) or "the diagnostic"
        task.progress(
            f"{wanted['metadata']['labels'][f'{keys.DOMAIN}/node']}: waits for {what} ({task.monotonic() - began:.0f} s)"
        )

    with mirror:
        task.progress(f"runs {' '.join(wanted['spec']['template']['spec']['containers'][0]['command'][3:])}")
        ended = mirror.wait_for(over, limit_s, PROGRESS_S, tell)
    if not ended:
        current = last.get("pod")
        why = job.waiting_for(current) if current else "no pod was created"
        return {
            "problem": f"the Job {name} did not end within {limit_s} s: {why or 'it still runs'}",
            "cause": "timeout",
        }
    if not last.get("here"):
        return {"problem": f"the pod of Job {name} vanished before its result could be read", "cause": "vanished"}
    return {"pod": last["pod"]}


def _collect(task, ended):
    """(rc, text, problem, cause)."""
    if "problem" in ended:
        return None, "", ended["problem"], ended["cause"]
    pod = ended["pod"]
    rc, early = job.exit_code(pod), job.failed_without_running(pod)
    if early:
        return None, "", f"the diagnostic was not started: {early}", "not_started"
    name, error = pod["metadata"]["name"], None
    for _attempt in range(5):
        try:
            return rc, task.kube.log(keys.NAMESPACE, name, job.CONTAINER, limitBytes=LOG_LIMIT), "", ""
        except ApiError as problem:
            error = problem
            task.sleep(1)
    return rc, "", f"the log of {name} cannot be read: {error}", "no_log"


def _delete(task, name, uid):
    with contextlib.suppress(NotFound, Conflict):
        task.kube.delete(
            paths.job(keys.NAMESPACE, name), {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        )
