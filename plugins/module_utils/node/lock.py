# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run at a time on a node, one counter at a time on a pool: Leases in gpuops-system.

The holder is the playbook run; every operation renews. Expiry is judged as leader election does it: by the observer's
own monotonic clock since it last saw the Lease change, never by comparing two machines' times. A node's Lease outlives
the operation (the run goes on with its next task) and is given back with the hold.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import threading

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import ApiError, Conflict, NotFound
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.mirror import Mirror
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Orphaned

DURATION_S = 30
POOL_DURATION_S = 15
POOL_PATIENCE_S = 120


def node_lock(task, node_name):
    """Context: this run, and no other, acts on the node. Fails when another run is alive on it."""
    if task.check_mode:
        return contextlib.nullcontext()
    return _held(task, f"node/{node_name}", task.params.get("lock_s") or DURATION_S, patience_s=0, keep=True)


def pool_lock(task, pool):
    """Context of seconds: counting a pool and taking from it. Waits while another run counts."""
    if task.check_mode:
        return contextlib.nullcontext()
    return _held(task, f"pool/{pool}", POOL_DURATION_S, patience_s=POOL_PATIENCE_S, keep=False)


def release_node_lock(task, node_name):
    """Let go of the node, with the last hold. A Lease that another run has taken meanwhile is left alone."""
    lease_name = lock_name(f"node/{node_name}")
    with contextlib.suppress(NotFound, Conflict):
        lease = task.kube.get(paths.lease(keys.NAMESPACE, lease_name))
        if lease["spec"].get("holderIdentity") == task.run:
            version = lease["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": ""}}
            task.kube.patch(paths.lease(keys.NAMESPACE, lease_name), body)


def lock_name(subject):
    """Lease name for "node/NAME" or "pool/NAME": names from the cluster may be too long or odd for an object name."""
    kind, _slash, name = subject.partition("/")
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@contextlib.contextmanager
def _held(task, subject, duration_s, patience_s, keep):
    lease = _Lease(task, subject, duration_s)
    lease.acquire(patience_s)
    task.add_guard(lease.check)
    stop = threading.Event()
    renewer = threading.Thread(target=lease.keep_renewing, args=(stop,), daemon=True)
    renewer.start()
    try:
        yield
    finally:
        stop.set()
        renewer.join(timeout=1)
        task.remove_guard(lease.check)
        if not keep:
            lease.give_back()


class _Lease:
    def __init__(self, task, subject, duration_s):
        self._task = task
        self._subject = subject
        self._name = lock_name(subject)
        self._path = paths.lease(keys.NAMESPACE, self._name)
        self._duration_s = duration_s
        self._version = None
        self._valid_until = 0.0
        self._lost = None
        self._writing = threading.RLock()
        self._writer = None

    def acquire(self, patience_s):
        give_up = self._task.monotonic() + patience_s
        while True:
            lease = self._read_or_create()
            holder = lease["spec"].get("holderIdentity")
            if holder in ("", None, self._task.run):
                if self._take(lease, taken_from=None):
                    return
                continue
            changed = self._wait_for_change(lease)
            if not changed:
                self._task.progress(f"takes {self._subject} over from run {holder}, which shows no life any more")
                if self._take(lease, taken_from=holder):
                    return
            elif patience_s == 0 and changed["spec"].get("holderIdentity") == holder:
                raise Failed(
                    f"{self._subject.replace('/', ' ')} is being worked on by run {holder}. Nothing was changed. Wait "
                    f"until that run has ended, then run the same command again; kubectl -n {keys.NAMESPACE} get lease "
                    f"{self._name} shows it."
                )
            elif patience_s and self._task.monotonic() > give_up:
                raise Failed(
                    f"{self._subject} stayed locked by run {holder} for {patience_s} s; run the command again."
                )

    def _read_or_create(self):
        try:
            return self._task.kube.get(self._path)
        except NotFound:
            now = _micro_time()
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "annotations": {keys.LOCK_OF: self._subject}},
                "spec": {
                    "holderIdentity": self._task.run,
                    "leaseDurationSeconds": self._duration_s,
                    "acquireTime": now,
                    "renewTime": now,
                },
            }
            try:
                return self._task.kube.create(paths.leases(keys.NAMESPACE), body)
            except Conflict:
                return self._task.kube.get(self._path)

    def _wait_for_change(self, lease):
        """The Lease as it next looks, or None when it did not change for its whole duration."""
        limit = lease["spec"].get("leaseDurationSeconds") or self._duration_s
        holder, version = lease["spec"].get("holderIdentity"), lease["metadata"]["resourceVersion"]
        self._task.progress(f"waits up to {limit} s to see whether run {holder} is alive on {self._subject}")
        mirror = Mirror(self._task.kube)
        mirror.add("lease", paths.leases(keys.NAMESPACE), fieldSelector=f"metadata.name={self._name}")

        def newest():
            return next(iter(mirror.objects("lease").values()), None)

        def changed():
            return newest() is None or newest()["metadata"]["resourceVersion"] != version

        with mirror:
            if not mirror.wait_for(changed, limit):
                return None
        return newest() or {"spec": {}}

    def _take(self, lease, taken_from):
        spec = {
            "holderIdentity": self._task.run,
            "leaseDurationSeconds": self._duration_s,
            "renewTime": _micro_time(),
        }
        metadata = {"resourceVersion": lease["metadata"]["resourceVersion"]}
        if lease["spec"].get("holderIdentity") != self._task.run:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = (lease["spec"].get("leaseTransitions") or 0) + 1
            metadata["annotations"] = {keys.TAKEN_OVER_FROM: taken_from}
        return self._write({"metadata": metadata, "spec": spec})

    def _write(self, body):
        """True when written; False when somebody was faster."""
        with self._writing:
            self._writer = threading.get_ident()
            started = self._task.monotonic()
            try:
                written = self._task.kube.patch(self._path, body)
            except Conflict:
                return False
            finally:
                self._writer = None
            self._version = written["metadata"]["resourceVersion"]
            self._valid_until = started + self._duration_s
            return True

    def renew(self):
        with self._writing:
            body = {"metadata": {"resourceVersion": self._version}, "spec": {"renewTime": _micro_time()}}
            if not self._write(body):
                self._lost = True

    def keep_renewing(self, stop):
        while not stop.wait(self._duration_s / 3):
            try:
                self.renew()
            except Orphaned:
                return
            except ApiError:  # tried again at the next beat, and before the next write
                continue

    def check(self):
        """Raises when this run may not write any more; renews first where that is overdue."""
        if self._writer == threading.get_ident():
            return
        if not self._lost and self._task.monotonic() > self._valid_until:
            self.renew()
        if self._lost:
            raise Failed(f"Another run has taken {self._subject} over; this one stops here and writes nothing more.")

    def give_back(self):
        with contextlib.suppress(ApiError, Failed):
            self._write({"metadata": {"resourceVersion": self._version}, "spec": {"holderIdentity": ""}})


def _micro_time():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
