# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs: pods until enough have succeeded, or the limit of failures or time is reached.

Rules of kube-controller-manager 1.36 (job_controller.go): every pod is counted once, held by a finalizer until then; a pod
that is being deleted counts as failed at once and is replaced, unless podReplacementPolicy is Failed; so an eviction uses
up backoffLimit. SuccessCriteriaMet or FailureTarget come first, Complete or Failed once all pods have ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.controllers.owners import OwnerController, is_active, pod_from
from simulator.objects import condition, controller_of, is_finished, is_terminating, key_of, set_condition

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
REACHED = ("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
TOO_MANY = ("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LATE = ("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")


def backoff_s(failures):
    """Wait after the last failure before a new pod: 10, 20, 40 … s, at most 10 minutes."""
    return min(600, 10 * 2 ** (failures - 1)) if failures else 0


def has_failed(pod, only_failed):
    """only_failed: podReplacementPolicy Failed."""
    phase = pod["status"].get("phase")
    return phase == "Failed" or not only_failed and is_terminating(pod) and phase != "Succeeded"


def wanted_active(spec, succeeded, active):
    if spec.get("completions") is None:
        return active if succeeded else spec["parallelism"]
    return max(0, min(spec["parallelism"], spec["completions"] - succeeded))


def is_complete(spec, succeeded, active):
    if active:
        return False
    return succeeded > 0 if spec.get("completions") is None else succeeded >= spec["completions"]


def parse_indexes(text):
    """ "0-2,5" as a set."""
    found = set()
    for part in filter(None, (text or "").split(",")):
        first, _dash, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def write_indexes(indexes):
    parts, ordered = [], sorted(indexes)
    while ordered:
        first = last = ordered.pop(0)
        while ordered and ordered[0] == last + 1:
            last = ordered.pop(0)
        parts.append(str(first) if first == last else f"{first}-{last}" if last > first + 1 else f"{first},{last}")
    return ",".join(parts)


@dataclass
class Memory:
    """Of a running Job, in simulated seconds of the clock: since when, and the failures after the last success."""

    started: float | None = None
    failures: int = 0
    last_failure: float = 0


class Jobs(OwnerController):
    name, plural, kind = "jobs", "jobs", "Job"

    def __init__(self, store, clock):
        super().__init__(store, clock)
        self._memory = {}
        self._expiring = set()

    def reconcile(self, key):
        job = self.store.get("jobs", key[1], key[0])
        if job is None:
            self._release_orphans(key)
            return
        if condition(job, "Complete") or condition(job, "Failed"):
            self._release(self.store.pods_of(job["metadata"]["uid"]))
            self._expire(key, job)
            return
        spec = job["spec"]
        memory = self._memory.setdefault(job["metadata"]["uid"], Memory())
        succeeded, failed, indexes = self._count(job, memory)
        pods = self.store.pods_of(job["metadata"]["uid"])
        target = self._target(key, job, memory, failed, pods)
        active = [p for p in pods if is_active(p)]
        if target:
            for pod in active:
                self._delete(pod)
        elif not is_terminating(job):
            active = self._manage(key, job, memory, succeeded, active, indexes)
            if is_complete(spec, succeeded, len(active)) and not spec.get("suspend"):
                target = REACHED
        self._status(key, job, memory, succeeded, failed, indexes, target)

    def seen(self, change):
        super().seen(change)
        if change.resource.plural == "jobs" and change.type == "DELETED":
            self._memory.pop(change.object["metadata"]["uid"], None)

    # -- counting
    def _count(self, job, memory):
        """(succeeded, failed, succeeded indexes) with what has ended since; counted pods lose their finalizer."""
        status, only_failed = job.get("status") or {}, job["spec"].get("podReplacementPolicy") == "Failed"
        succeeded, failed = status.get("succeeded", 0), status.get("failed", 0)
        indexes = parse_indexes(status.get("completedIndexes"))
        for pod in self.store.pods_of(job["metadata"]["uid"]):
            if FINALIZER not in (pod["metadata"].get("finalizers") or []):
                continue
            if pod["status"].get("phase") == "Succeeded":
                succeeded += 1
                memory.failures = 0
                index = (pod["metadata"].get("annotations") or {}).get(INDEX)
                if index is not None:
                    indexes.add(int(index))
            elif has_failed(pod, only_failed):
                failed += 1
                memory.failures += 1
                memory.last_failure = self.clock.monotonic()
            else:
                continue
            self._release([pod])
        if job["spec"].get("completionMode") == "Indexed":
            succeeded = len(indexes)
        return succeeded, failed, indexes

    def _release(self, pods):
        for pod in pods:
            meta = pod["metadata"]
            if FINALIZER in (meta.get("finalizers") or []):
                edit = lambda o: o["metadata"]["finalizers"].remove(FINALIZER)  # noqa: E731
                self.store.mutate("pods", meta["name"], edit, meta["namespace"])

    def _release_orphans(self, key):
        """Pods of a Job that is gone must not hang on its finalizer."""
        for pod in self.store.list("pods", key[0]):
            ref = controller_of(pod)
            if ref and ref["kind"] == "Job" and ref["name"] == key[1]:
                self._release([pod])

    def _target(self, key, job, memory, failed, pods):
        """The end that the Job is bound for, as (condition, reason, message), or None."""
        for found in (job.get("status") or {}).get("conditions") or []:
            if found["type"] in ("SuccessCriteriaMet", "FailureTarget") and found["status"] == "True":
                return found["type"], found["reason"], found["message"]
        spec = job["spec"]
        restarts = sum(c.get("restartCount", 0) for p in pods for c in p["status"].get("containerStatuses") or [])
        on_failure = spec["template"]["spec"].get("restartPolicy") == "OnFailure"
        if failed > spec["backoffLimit"] or on_failure and restarts and restarts >= spec["backoffLimit"]:
            return TOO_MANY
        limit = spec.get("activeDeadlineSeconds")
        if limit is not None and memory.started is not None and not spec.get("suspend"):
            left = memory.started + limit - self.clock.monotonic()
            if left <= 0:
                return TOO_LATE
            self.mark_later(left + 0.01, key)
        return None

    # -- acting
    def _manage(self, key, job, memory, succeeded, active, indexes):
        """The active pods after what is done now: deleting, or else creating."""
        spec = job["spec"]
        wanted = 0 if spec.get("suspend") else wanted_active(spec, succeeded, len(active))
        if len(active) > wanted:
            unready_first = sorted(active, key=lambda p: condition(p, "Ready"))
            for pod in unready_first[: len(active) - wanted]:
                self._delete(pod)
            return unready_first[len(active) - wanted :]
        going = 0
        if spec.get("podReplacementPolicy") == "Failed":
            pods = self.store.pods_of(job["metadata"]["uid"])
            going = sum(is_terminating(p) and not is_finished(p) for p in pods)
        missing = wanted - going - len(active)
        if missing <= 0:
            return active
        wait = memory.last_failure + backoff_s(memory.failures) - self.clock.monotonic()
        if memory.failures and wait > 0:
            self.mark_later(wait + 0.01, key)
            return active
        created = []
        if spec.get("completionMode") == "Indexed":
            taken = indexes | {int((p["metadata"].get("annotations") or {}).get(INDEX, -1)) for p in active}
            for index in [i for i in range(spec["completions"]) if i not in taken][:missing]:
                created.append(self._create(key, job, index))
        else:
            created = [self._create(key, job) for _missing in range(missing)]
        return active + created

    def _create(self, key, job, index=None):
        prefix = f"{key[1]}-" if index is None else f"{key[1]}-{index}-"
        pod = pod_from(job, generateName=prefix, finalizers=[FINALIZER])
        if index is not None:
            pod["metadata"].setdefault("annotations", {})[INDEX] = str(index)
            pod["metadata"].setdefault("labels", {})[INDEX] = str(index)
            pod["spec"]["hostname"] = f"{key[1]}-{index}"
            for container in pod["spec"]["containers"]:
                container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
        return self.store.create("pods", pod, key[0])

    def _delete(self, pod):
        self.store.delete("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])

    def _status(self, key, job, memory, succeeded, failed, indexes, target):
        stamp, spec = self.clock.stamp(), job["spec"]
        pods = self.store.pods_of(job["metadata"]["uid"])
        active = [p for p in pods if is_active(p)]
        ready = sum(condition(p, "Ready") for p in active)
        terminating = sum(is_terminating(p) and not is_finished(p) for p in pods)
        suspended = bool(spec.get("suspend"))
        was_suspended = condition(job, "Suspended")
        if suspended:
            memory.started = None
        elif memory.started is None:
            memory.started = self.clock.monotonic()
            self.mark(key)  # a deadline counts from here

        def edit(obj):
            status = obj.setdefault("status", {})
            if suspended:
                status.pop("startTime", None)
                set_condition(obj, "Suspended", "True", stamp, "JobSuspended", "Job suspended")
            elif "startTime" not in status or was_suspended:
                status["startTime"] = stamp
                if was_suspended:
                    set_condition(obj, "Suspended", "False", stamp, "JobResumed", "Job resumed")
            counts = {"active": len(active), "succeeded": succeeded, "failed": failed}
            status.update(counts, ready=ready, terminating=terminating, uncountedTerminatedPods={})
            for field in counts:
                if not status[field]:
                    del status[field]
            if spec.get("completionMode") == "Indexed" and indexes:
                status["completedIndexes"] = write_indexes(indexes)
            if target:
                set_condition(obj, target[0], "True", stamp, *target[1:])
                if not active and not terminating:
                    kind = "Complete" if target[0] == "SuccessCriteriaMet" else "Failed"
                    set_condition(obj, kind, "True", stamp, *target[1:])
                    if kind == "Complete":
                        status["completionTime"] = stamp

        self.status(key, edit)

    # -- after the end
    def _expire(self, key, job):
        limit, uid = job["spec"].get("ttlSecondsAfterFinished"), job["metadata"]["uid"]
        if limit is not None and uid not in self._expiring:
            self._expiring.add(uid)
            self.clock.call_later(limit, self._delete_expired, key, uid)

    def _delete_expired(self, key, uid):
        self._expiring.discard(uid)
        job = self.store.get("jobs", key[1], key[0])
        if job is not None and job["metadata"]["uid"] == uid and not is_terminating(job):
            with self.store.acting("controller/ttl-after-finished"):
                self.store.delete("jobs", key_of(job)[1], key[0], {"propagationPolicy": "Foreground"})
