# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One pod on one node, and the status that its kubelet writes for it."""

from __future__ import annotations

import asyncio
import hashlib

from simulator.objects import is_finished, key_of, set_condition

KILLED, TERMINATED = 137, 143
REASONS = {0: "Completed"}


def pod_address(node, uid):
    """The same for the same pod on the same node."""
    digest = hashlib.sha256(f"{node}/{uid}".encode()).digest()
    return f"10.244.{hashlib.sha256(node.encode()).digest()[0]}.{digest[0] % 253 + 2}"


def container_status(container, before, uid, ready, restarts, state):
    """One entry of containerStatuses; before: the entry that stood there, or {}. state None keeps the one there."""
    identity = hashlib.sha256(f"{uid}/{container['name']}/{restarts}".encode()).hexdigest()
    status = {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"{container['image'].partition(':')[0]}@sha256:{hashlib.sha256(container['image'].encode()).hexdigest()}",
        "containerID": f"containerd://{identity}",
        "ready": ready,
        "started": "running" in (state or before.get("state") or {}),
        "restartCount": restarts,
        "state": state or before.get("state") or {"waiting": {"reason": "ContainerCreating"}},
        "lastState": before.get("lastState") or {},
    }
    if "waiting" in status["state"] and not restarts:
        status["imageID"] = status["containerID"] = ""
    if restarts > before.get("restartCount", 0) and "terminated" in before.get("state", {}):
        status["lastState"] = before["state"]
    return status


class PodRun:
    """What a pod's programs see of their kubelet.

    stopping: set by SIGTERM. power_off: set when the machine went down under the pod. The pod's programs are cancelled
    on both, and started again when the machine is back. restarts counts up over both.
    """

    def __init__(self, kubelet, pod, node):
        self.kubelet, self.store, self.clock = kubelet, kubelet.store, kubelet.clock
        self.node, self.machine = node, kubelet.machines.get(node)
        self.uid, (self.namespace, self.name) = pod["metadata"]["uid"], key_of(pod)
        self.pod = pod
        self.stopping, self.power_off, self.grace_changed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.restarts = 0

    def current(self):
        """The stored pod, or None when it is gone (or another one has its name)."""
        found = self.store.get("pods", self.name, self.namespace)
        return found if found is not None and found["metadata"]["uid"] == self.uid else None

    @property
    def alive(self):
        return self.current() is not None

    @property
    def grace_s(self):
        return self.pod["metadata"].get("deletionGracePeriodSeconds", 30)

    def log(self, text, container=None):
        container = container or self.pod["spec"]["containers"][0]["name"]
        for line in text.splitlines():
            self.store.logs.append(self.uid, container, line)

    async def initializing(self):
        self._status("Pending", ready=False, state={"waiting": {"reason": "PodInitializing"}})

    async def running(self, ready=True):
        self._status("Running", ready=ready, state={"running": {"startedAt": self.clock.stamp()}})

    async def set_ready(self, ready):
        self._status("Running", ready=ready, state=None)

    async def restart(self, reason="Error", code=1):
        """A container ended with code and is held back before its next start."""
        self._status("Running", ready=False, state=self._terminated(code, "Error"))
        self.restarts += 1
        self._status("Running", ready=False, state={"waiting": {"reason": "CrashLoopBackOff", "message": reason}})

    async def exit(self, code, reason=None, message=None):
        """The pod ends: Succeeded for code 0, else Failed. reason and message are the pod's (DeadlineExceeded, …)."""
        words = {"reason": reason, "message": message} if reason else {}
        state = self._terminated(code, REASONS.get(code, "Error"))
        self._status("Succeeded" if code == 0 else "Failed", ready=False, state=state, **words)

    def reject(self, reason, message):
        """Not admitted to the node: the pod fails without having had a container."""

        def edit(pod):
            pod["status"].update(phase="Failed", reason=reason, message=message)
            pod["status"].setdefault("startTime", self.clock.stamp())

        self._write(edit)

    def _terminated(self, code, reason):
        pod, stamp = self.current() or self.pod, self.clock.stamp()
        running = (c["state"].get("running") or {} for c in pod["status"].get("containerStatuses") or [])
        started = next((r["startedAt"] for r in running if r), stamp)
        return {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": stamp}}

    def _status(self, phase, ready, state, **words):
        stamp, node = self.clock.stamp(), self.store.get("nodes", self.node) or {}
        addresses = (node.get("status") or {}).get("addresses") or []
        host = next((a["address"] for a in addresses if a["type"] == "InternalIP"), "10.0.0.1")

        def edit(pod):
            spec, status = pod["spec"], pod["status"]
            status.update(phase=phase, **words)
            status.setdefault("startTime", stamp)
            address = host if spec.get("hostNetwork") else pod_address(self.node, self.uid)
            status.update(hostIP=host, hostIPs=[{"ip": host}], podIP=address, podIPs=[{"ip": address}])
            initialized = phase != "Pending"
            ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
            for kind, value in (
                ("PodScheduled", True),
                ("PodReadyToStartContainers", not ended),
                ("Initialized", initialized),
                ("ContainersReady", ready),
                ("Ready", ready),
            ):
                lacking = ended or ("ContainersNotInitialized" if kind == "Initialized" else "ContainersNotReady")
                set_condition(pod, kind, "True" if value else "False", stamp, "" if value else lacking)
            before = {c["name"]: c for c in status.get("containerStatuses") or []}
            status["containerStatuses"] = [
                container_status(c, before.get(c["name"], {}), self.uid, ready, self.restarts, state)
                for c in spec["containers"]
            ]
            if spec.get("initContainers"):
                done = {"exitCode": 0, "reason": "Completed", "startedAt": status["startTime"], "finishedAt": stamp}
                init = {"terminated": done} if initialized else {"running": {"startedAt": status["startTime"]}}
                before = {c["name"]: c for c in status.get("initContainerStatuses") or []}
                kept = {name: entry for name, entry in before.items() if "terminated" in entry["state"]}
                status["initContainerStatuses"] = [
                    kept.get(c["name"]) or container_status(c, {}, self.uid, initialized, 0, init)
                    for c in spec["initContainers"]
                ]

        self._write(edit)

    def _write(self, edit):
        """Nothing for a pod that has ended, is gone, or whose machine is down."""
        pod = self.current()
        if pod is None or is_finished(pod) or not self.machine.alive:
            return
        with self.store.acting(f"kubelet/{self.node}"):
            self.store.mutate("pods", self.name, edit, self.namespace, status=True)
