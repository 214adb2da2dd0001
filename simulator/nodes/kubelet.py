# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubelets: heartbeats, starting and ending pods, devices, logs. One object plays them all.

Other parts play their own pods (the GPU operator its operands) by registering a predicate and a coroutine.
"""

from __future__ import annotations

import asyncio
import sys
import traceback

from simulator.errors import ApiError
from simulator.nodes import containers
from simulator.objects import controller_of, gpu_request, is_finished, is_terminating, key_of, set_condition

HEARTBEAT_S = 60
LEASE_S = 40


class PodRun:
    """One pod on one node, as long as it lives. `stopping` is set by SIGTERM."""

    def __init__(self, kubelet, pod, node):
        self.kubelet, self.store, self.clock = kubelet, kubelet.store, kubelet.clock
        self.node, self.machine = node, kubelet.machines.get(node)
        self.uid, (self.namespace, self.name) = pod["metadata"]["uid"], key_of(pod)
        self.pod = pod
        self.stopping = asyncio.Event()
        self.restarts = 0

    @property
    def alive(self):
        found = self.store.get("pods", self.name, self.namespace)
        return found is not None and found["metadata"]["uid"] == self.uid

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

    async def restart(self, reason="Error"):
        self.restarts += 1
        self._status("Running", ready=False, state={"waiting": {"reason": "CrashLoopBackOff", "message": reason}})

    async def exit(self, code, reason=None):
        phase = "Succeeded" if code == 0 else "Failed"
        reason = reason or ("Completed" if code == 0 else "Error")
        state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": self.clock.stamp()}}
        self._status(phase, ready=False, state=state)

    def _status(self, phase, ready, state):
        stamp = self.clock.stamp()

        def edit(pod):
            status = pod["status"]
            status["phase"] = phase
            status.setdefault("startTime", stamp)
            status.setdefault("hostIP", "10.0.0.1")
            status.setdefault("podIP", f"10.244.{abs(hash(self.node)) % 250}.{int(self.uid[:2], 16) % 250 + 1}")
            initialized = phase != "Pending"
            for kind, value in (("Initialized", initialized), ("ContainersReady", ready), ("Ready", ready)):
                reason = "" if value else "PodCompleted" if phase == "Succeeded" else "ContainersNotReady"
                set_condition(pod, kind, "True" if value else "False", stamp, reason)
            before = {c["name"]: c for c in status.get("containerStatuses") or []}
            status["containerStatuses"] = [
                {
                    "name": c["name"],
                    "image": c["image"],
                    "imageID": "",
                    "ready": ready,
                    "started": phase == "Running",
                    "restartCount": self.restarts,
                    "state": state or before.get(c["name"], {}).get("state") or {"running": {"startedAt": stamp}},
                }
                for c in pod["spec"]["containers"]
            ]

        if self.alive:
            with self.store.acting(f"kubelet/{self.node}"):
                self.store.mutate("pods", self.name, edit, self.namespace, status=True)


class Kubelet:
    def __init__(self, store, clock, machines):
        self.store, self.clock, self.machines = store, clock, machines
        self.trainings = containers.Trainings()
        self.problems = []
        self._plays = []
        self._runs = {}
        self._tasks = set()
        store.subscribe(self._seen)

    def register(self, predicate, play):
        """play: `async (PodRun) -> None`, for pods that predicate(pod) holds for; it sets phases, readiness and logs.

        It is cancelled when the pod is told to stop. The kubelet then ends the pod after its `stop-s`.
        """
        self._plays.append((predicate, play))

    def stop(self):
        for task in list(self._tasks):
            task.cancel()

    async def run(self):
        """Heartbeats of all nodes."""
        beat = 0
        while True:
            for node in list(self.store.list("nodes")):
                name = node["metadata"]["name"]
                machine = self.machines.get(name)
                if machine is not None and machine.alive:
                    self._heartbeat(node, machine, full=beat % 6 == 0 or not _is_ready(node))
                elif machine is not None and _is_ready(node):
                    self._lost(node)
            beat += 1
            await self.clock.sleep(max(10, self.clock.speed))

    def _heartbeat(self, node, machine, full):
        name, stamp = node["metadata"]["name"], self.clock.stamp()
        with self.store.acting(f"kubelet/{name}"):
            spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": self.clock.micro()}
            if self.store.mutate("leases", name, lambda o: o.update(spec=spec), "kube-node-lease") is None:
                self.store.create("leases", {"metadata": {"name": name}, "spec": spec}, "kube-node-lease")
            if not full:
                return

            def edit(obj):
                set_condition(
                    obj,
                    "Ready",
                    "True",
                    stamp,
                    "KubeletReady",
                    "kubelet is posting ready status",
                    lastHeartbeatTime=stamp,
                )
                obj["status"].setdefault("nodeInfo", {})["bootID"] = machine.boot_id

            self.store.mutate("nodes", name, edit, status=True)

    def _lost(self, node):
        """What the node controller does once heartbeats stay away."""
        name, stamp = node["metadata"]["name"], self.clock.stamp()
        with self.store.acting("controller/node-lifecycle"):
            edit = lambda o: set_condition(  # noqa: E731
                o, "Ready", "Unknown", stamp, "NodeStatusUnknown", "Kubelet stopped posting node status."
            )
            self.store.mutate("nodes", name, edit, status=True)

    def beat_now(self, name):
        """A status at once (a machine that has just come up or gone down does not wait for the next round)."""
        node, machine = self.store.get("nodes", name), self.machines.get(name)
        if node and machine and machine.alive:
            self._heartbeat(node, machine, full=True)
        elif node and machine:
            self._lost(node)

    # -- pods
    def _seen(self, change):
        if change is None or change.resource.plural != "pods":
            return
        pod = change.object
        node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        run = self._runs.get(uid)
        if change.type == "DELETED":
            if run:
                run.stopping.set()
                self._runs.pop(uid, None)
            return
        if not node or node not in self.machines:
            return
        if run is None and not is_finished(pod):
            run = self._runs[uid] = PodRun(self, pod, node)
            self._spawn(self._life(run))
        elif run is not None:
            run.pod = pod
            if is_terminating(pod):
                run.stopping.set()

    def _spawn(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task):
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            error = task.exception()
            self.problems.append(f"kubelet: {error!r}")
            traceback.print_exception(error, file=sys.stderr)

    async def _life(self, run):
        while not run.machine.alive and run.alive:
            await self.clock.sleep(5)
        if not run.stopping.is_set() and self._admitted(run):
            playing = asyncio.ensure_future(self._play(run))
            stop = asyncio.ensure_future(run.stopping.wait())
            try:
                await asyncio.wait({playing, stop}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stop.cancel()
                playing.cancel()
            await asyncio.wait({playing})
            if not playing.cancelled() and playing.exception():
                raise playing.exception()
        await run.stopping.wait()
        await self._end(run)

    def _admitted(self, run):
        """Devices are handed out here: a pod that asks for more GPUs than are free and healthy fails at once."""
        asked = gpu_request(run.pod)
        if not asked:
            return True
        others = [p for p in self.store.pods_on(run.node) if p["metadata"]["uid"] != run.uid and not is_finished(p)]
        used = sum(gpu_request(p) for p in others)
        node = self.store.get("nodes", run.node) or {}
        allocatable = int(((node.get("status") or {}).get("allocatable") or {}).get("nvidia.com/gpu", 0))
        if used + asked <= allocatable:
            return True
        with self.store.acting(f"kubelet/{run.node}"):

            def edit(pod):
                pod["status"].update(
                    phase="Failed",
                    reason="UnexpectedAdmissionError",
                    message=f"Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: "
                    f"{int(asked)}, Available: {int(max(0, allocatable - used))}, which is unexpected",
                )

            self.store.mutate("pods", run.name, edit, run.namespace, status=True)
        return False

    async def _play(self, run):
        for predicate, play in self._plays:
            if predicate(run.pod):
                await play(run)
                return
        await run.initializing()
        await self.clock.sleep(containers.setting(run.pod, "start-s", 2))
        container = run.pod["spec"]["containers"][0]
        found = containers.diagnostic(container)
        if found:
            await run.running(ready=True)
            await run.exit(await containers.run_diagnostic(found, run, self._busy(run)))
            return
        ready = (run.pod["metadata"].get("annotations") or {}).get(containers.PREFIX + "ready") != "false"
        await run.running(ready=ready)
        if containers.behaviour(run.pod) == "train":
            code = await containers.train(run, self.trainings.of(run.pod))
            if code is not None:
                await run.exit(code)
            return
        run.log("started")

    def _busy(self, run):
        """Another workload pod has GPUs of this machine."""
        return any(
            p["metadata"]["uid"] != run.uid
            and gpu_request(p)
            and not is_finished(p)
            and p["status"].get("phase") == "Running"
            for p in self.store.pods_on(run.node)
        )

    async def _end(self, run):
        """SIGTERM has been sent: use what is needed of the grace, then confirm the end (unless the pod is stuck)."""
        pod = self.store.get("pods", run.name, run.namespace)
        if pod is None or pod["metadata"]["uid"] != run.uid:
            return
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
        if not is_finished(pod):
            if containers.behaviour(pod) == "train" and pod["status"].get("phase") == "Running":
                code = await containers.save_on_sigterm(run, self.trainings.of(pod), grace)
                await run.exit(code)
            else:
                await self.clock.sleep(min(grace, containers.setting(pod, "stop-s", 1)))
        while run.alive and not self._can_end(run):
            await self.clock.sleep(2)
        self._runs.pop(run.uid, None)
        if run.alive:
            with self.store.acting(f"kubelet/{run.node}"):
                try:
                    self.store.delete("pods", run.name, run.namespace, {"gracePeriodSeconds": 0})
                except ApiError as error:
                    if error.code != 404:
                        raise

    def _can_end(self, run):
        pod = self.store.get("pods", run.name, run.namespace)
        if pod is None:
            return True
        stuck = (pod["metadata"].get("annotations") or {}).get(containers.PREFIX + "stuck") == "true"
        return run.machine.alive and not stuck


def _is_ready(node):
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def is_workload(pod):
    """Not a DaemonSet's pod and not the node's own."""
    ref = controller_of(pod)
    return not (ref and ref["kind"] in ("DaemonSet", "Node"))
