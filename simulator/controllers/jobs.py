# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs: pods until enough have succeeded, or the limit of failures or time is reached."""

from __future__ import annotations

import datetime

from simulator.controllers.workloads import OwnerController, pod_from
from simulator.objects import condition, is_finished, is_terminating, set_condition


class Jobs(OwnerController):
    name, plural, kind = "jobs", "jobs", "Job"

    def reconcile(self, key):
        job = self.living(key)
        if job is None:
            return
        if condition(job, "Complete") or condition(job, "Failed"):
            self._expire(key, job)
            return
        spec, uid = job["spec"], job["metadata"]["uid"]
        pods = self.store.pods_of(uid)
        succeeded = sum(p["status"].get("phase") == "Succeeded" for p in pods)
        failed = sum(p["status"].get("phase") == "Failed" for p in pods)
        active = [p for p in pods if not is_finished(p) and not is_terminating(p)]
        late = self._late(key, job)
        outcome = None
        if succeeded >= spec["completions"]:
            outcome = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif late:
            outcome = ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        elif failed > spec["backoffLimit"]:
            outcome = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if outcome:
            for pod in active:
                self.store.delete("pods", pod["metadata"]["name"], key[0])
        else:
            going = sum(1 for p in pods if is_terminating(p) and not is_finished(p))
            wanted = min(spec["parallelism"], spec["completions"] - succeeded) - len(active) - going
            for _missing in range(max(0, wanted)):
                active.append(self._create(key, job))
        self._status(key, active, succeeded, failed, outcome)

    def _create(self, key, job):
        pod = pod_from(job, generateName=f"{key[1]}-")
        return self.store.create("pods", pod, key[0])

    def _late(self, key, job):
        limit, started = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
        if not limit or not started:
            if limit:
                self.mark_later(limit + 0.1, key)
            return False
        begun = datetime.datetime.strptime(started, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
        passed = (self.clock.now() - begun).total_seconds() * self.clock.speed
        return passed > limit + self.clock.speed  # stamps have whole seconds: never early

    def _status(self, key, active, succeeded, failed, outcome):
        stamp = self.clock.stamp()
        ready = sum(condition(p, "Ready") for p in active)

        def edit(obj):
            status = obj.setdefault("status", {})
            status.setdefault("startTime", stamp)
            status.update(active=0 if outcome else len(active), ready=0 if outcome else ready)
            status.update(succeeded=succeeded, failed=failed, terminating=0, uncountedTerminatedPods={})
            for field in ("active", "succeeded", "failed"):
                if not status[field]:
                    del status[field]
            if outcome:
                kind, reason, message = outcome
                if kind == "Complete":
                    set_condition(obj, "SuccessCriteriaMet", "True", stamp, reason, message)
                    status["completionTime"] = stamp
                else:
                    set_condition(obj, "FailureTarget", "True", stamp, reason, message)
                set_condition(obj, kind, "True", stamp, reason, message)

        self.status(key, edit)
        if outcome:
            self.mark(key)

    def _expire(self, key, job):
        limit = job["spec"].get("ttlSecondsAfterFinished")
        if limit is None:
            return
        uid = job["metadata"]["uid"]
        self.clock.call_later(limit, self._delete_expired, key, uid)

    def _delete_expired(self, key, uid):
        job = self.store.get("jobs", key[1], key[0])
        if job is not None and job["metadata"]["uid"] == uid and not is_terminating(job):
            with self.store.acting("controller/ttl-after-finished"):
                self.store.delete("jobs", key[1], key[0], {"propagationPolicy": "Foreground"})
