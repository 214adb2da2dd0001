# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a diagnostic program as a Job on a node: create, wait, keep its log, delete.

Whatever goes wrong is `unknown` with a cause. Only a missing permission, a foreign Job in the way and a lost lock fail.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.mirror import Mirror
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import job
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.execution import (
    KILL_AFTER_S,
    OUTPUT_LIMIT,
    Execution,
    ending,
)

PROGRESS_S = 15
DELETE_S = 120
ATTEMPTS = 5
PASSING = (TooManyRequests, Unavailable, Unreachable)


class End(NamedTuple):
    """How waiting ended: the pod with its exit code, or a cause and a sentence why there is none."""

    pod: Optional[dict]
    cause: str = ""
    problem: str = ""


def run(task, wanted, timeout_s):
    """Execution of the Job `wanted` (job.body). The Job is deleted whatever happens, as far as the API allows."""
    clock, started = task.monotonic(), task.kube.server_time()
    try:
        rc, text, cause, problem = _run(task, wanted, timeout_s)
    except Forbidden as error:
        raise Failed(
            f"{task.name} of {task.params['node']}: the API refuses {error.request}: {error.message}. If it is a matter of "
            f"permission: bind your account to the Role gpuops-run in {keys.NAMESPACE} and the ClusterRole gpuops-read "
            "(ansible-playbook gpuops.lifecycle.install creates both). No result was recorded."
        ) from error
    except PASSING as error:
        rc, text, cause, problem = None, "", "api", f"the API server was not there for it: {error}"
    took_s = round(task.monotonic() - clock, 1)
    return Execution(rc, text, started, task.kube.server_time(), took_s, problem, cause)


def _run(task, wanted, timeout_s):
    """(rc, text, cause, problem)."""
    name = wanted["metadata"]["name"]
    uid = _start(task, wanted)["metadata"]["uid"]
    try:
        end = _Waiting(task, name, uid, timeout_s).until_the_end()
        if end.pod is None:
            return None, "", end.cause, end.problem
        return _collect(task, end.pod, wanted, timeout_s)
    finally:
        _delete(task, name, uid)


def _start(task, wanted):
    """The Job, created; or the one that an earlier run left, if it still does this very work.

    Anything else under the name is removed first, so that no old result is taken for new and never two run at once.
    """
    name, error = wanted["metadata"]["name"], None
    for attempt in range(ATTEMPTS):
        if attempt:
            task.sleep(1)
        try:
            return task.kube.create(paths.jobs(keys.NAMESPACE), wanted)
        except Conflict as conflict:
            error = conflict
        except (Unavailable, Unreachable) as away:
            # It may have been created all the same: the next attempt then meets it.
            error = away
            continue
        left = _get(task, name)
        if left is None:
            continue
        if not job.is_ours(left):
            raise Failed(
                f"A Job {keys.NAMESPACE}/{name} exists that is not of this collection. Nothing was run. Rename or delete "
                "it, then run the same command again."
            )
        if job.can_be_adopted(left, wanted):
            task.progress(f"goes on with the Job {name} that an earlier run started")
            return left
        task.progress(f"removes the Job {name} that an earlier run left")
        _delete(task, name, left["metadata"]["uid"])
        _wait_gone(task, name, left["metadata"]["uid"])
    if isinstance(error, Conflict):
        raise Failed(
            f"The Job {keys.NAMESPACE}/{name} of an earlier run does not go away. Nothing was run. "
            f"kubectl -n {keys.NAMESPACE} describe job {name} shows what holds it."
        )
    raise error


def _get(task, name):
    try:
        return task.kube.get(paths.job(keys.NAMESPACE, name))
    except NotFound:
        return None


def _pods_of(uid):
    return {"labelSelector": f"batch.kubernetes.io/controller-uid={uid}"}


def _wait_gone(task, name, uid):
    """Until the Job and its pods are gone: only then is the GPU free for the next one."""
    mirror = Mirror(task.kube)
    mirror.add("jobs", paths.jobs(keys.NAMESPACE), fieldSelector=f"metadata.name={name}")
    mirror.add("pods", paths.pods(keys.NAMESPACE), **_pods_of(uid))
    with mirror:
        mirror.wait_for(lambda: uid not in mirror.objects("jobs") and not mirror.objects("pods"), DELETE_S)


class _Waiting:
    """One wait for the pod of a Job. started: whether its container was seen to run."""

    def __init__(self, task, name, uid, timeout_s):
        self._task = task
        self._name = name
        self._uid = uid
        self._timeout_s = timeout_s
        self._began = task.monotonic()
        self._seen = None
        self._started = False
        self._mirror = Mirror(task.kube)
        self._mirror.add("pods", paths.pods(keys.NAMESPACE), **_pods_of(uid))
        self._mirror.add("jobs", paths.jobs(keys.NAMESPACE), fieldSelector=f"metadata.name={name}")

    def until_the_end(self):
        limit_s = job.START_S + self._timeout_s + KILL_AFTER_S
        with self._mirror:
            self._mirror.wait_for(self._over, limit_s, PROGRESS_S, self._tell)
        pod, found = self._pod(), self._mirror.objects("jobs").get(self._uid)
        if pod is None:
            pod = self._ask_for_pod()
        if pod is not None and job.exit_code(pod) is not None:
            return End(pod)
        why = job.never_runs(pod) if pod else ""
        if why:
            return End(None, "not_started", f"the diagnostic was not started: {why}")
        condition = job.finished(found) if found else None
        if condition and condition.get("reason") == "DeadlineExceeded":
            return End(None, "timeout", f"the Job {self._name} reached its deadline: {self._last_known()}")
        if pod is not None and not self._started:
            waited = f"it did not start within {job.START_S} s"
            return End(None, "not_started", f"{waited}: {job.waiting_for(pod) or 'no reason is given'}")
        if pod is not None:
            return End(None, "timeout", f"the Job {self._name} did not end within {limit_s} s")
        if self._seen is not None or condition:
            return End(None, "vanished", f"the pod of Job {self._name} vanished before its result could be read")
        return End(
            None, "not_started", f"no pod was created for Job {self._name}: {self._last_event() or 'no event says why'}"
        )

    def _elapsed_s(self):
        return self._task.monotonic() - self._began

    def _pod(self):
        pods = sorted(self._mirror.objects("pods").values(), key=lambda pod: pod["metadata"]["creationTimestamp"])
        if pods:
            self._seen = pods[-1]
            self._started = self._started or (self._seen.get("status") or {}).get("phase") not in (None, "", "Pending")
        return pods[-1] if pods else None

    def _over(self):
        pod = self._pod()
        if pod is not None and (job.exit_code(pod) is not None or job.never_runs(pod)):
            return True
        if not self._started and self._elapsed_s() >= job.START_S:
            return True
        if pod is not None:
            return False
        found = self._mirror.objects("jobs").get(self._uid)
        return self._seen is not None or found is None or job.finished(found) is not None

    def _tell(self):
        pod = self._pod()
        if pod is None:
            what = "waits for a pod"
            event = self._last_event()
            what += f": {event}" if event else ""
        else:
            waiting = job.waiting_for(pod)
            what = f"waits for its pod: {waiting}" if waiting else f"runs, at most {self._timeout_s} s"
        self._task.progress(f"{self._name} {what} ({self._elapsed_s():.0f} s)")

    def _last_known(self):
        return (job.waiting_for(self._seen) if self._seen else "") or "it still ran"

    def _ask_for_pod(self):
        """Two watches may differ by a moment: the Job's end can be known before the pod that brought it about."""
        listed = self._task.kube.list(paths.pods(keys.NAMESPACE), **_pods_of(self._uid))
        return listed[0] if listed else None

    def _last_event(self):
        """The newest message about the Job: quotas and admission say there why no pod comes ("" when none is known)."""
        try:
            events = self._task.kube.list(
                paths.events(keys.NAMESPACE), fieldSelector=f"involvedObject.uid={self._uid},type=Warning"
            )
        except ApiError:
            return ""
        latest = max(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "", default={})
        return latest.get("message", "")


def _collect(task, pod, wanted, timeout_s):
    """(rc, text, cause, problem) of a pod whose container has ended."""
    rc, name = job.exit_code(pod), pod["metadata"]["name"]
    program = wanted["spec"]["template"]["spec"]["containers"][0]["command"][3]
    cause, problem = ending(rc, program, timeout_s)
    error, text = None, ""
    for attempt in range(ATTEMPTS):
        if attempt:
            task.sleep(1)
        try:
            text = task.kube.log(keys.NAMESPACE, name, job.CONTAINER, limitBytes=OUTPUT_LIMIT)
        except (Forbidden, NotFound) as final:
            if isinstance(final, Forbidden):
                raise
            return rc, "", "no_log", f"the log of {name} is gone: {final.message}"
        except ApiError as passing:
            error = passing
            continue
        if text or problem:
            break
    if not text and error and not problem:
        return rc, "", "no_log", f"the log of {name} cannot be read: {error}"
    return rc, text, cause, problem


def _delete(task, name, uid):
    """What cannot be deleted now is said, and goes by its time-to-live: the result in hand is worth more."""
    body = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
    try:
        task.kube.delete(paths.job(keys.NAMESPACE, name), body)
    except (NotFound, Conflict):
        return
    except ApiError as error:
        task.warn(
            f"The Job {keys.NAMESPACE}/{name} could not be deleted: {error}. It goes {job.KEEP_S} s after its end."
        )
