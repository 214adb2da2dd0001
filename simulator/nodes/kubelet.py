# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubelets: heartbeats, admitting, starting and ending pods. One object plays them all.

Other parts play their own pods (the GPU operator its operands) by registering a predicate and a coroutine.
"""

from __future__ import annotations

import asyncio
import sys
import traceback

from simulator.errors import ApiError
from simulator.nodes import containers
from simulator.nodes.podrun import KILLED, TERMINATED, PodRun
from simulator.objects import controller_of, gpu_request, is_finished, is_terminating, requests_of, set_condition
from simulator.scheduling import fits_selectors, free_resources

__all__ = ["Kubelet", "PodRun", "is_workload"]

HEARTBEAT_S = 10
STATUS_EVERY = 6  # heartbeats
LEASE_S = 40
LOST_AFTER_S = 50  # node-monitor-grace-period of kube-controller-manager
POLL_S = 2
RESTART_S, RESTART_AT_MOST_S, RESTART_FORGOTTEN_S = 10, 300, 600
HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


class Kubelet:
    def __init__(self, store, clock, machines):
        self.store, self.clock, self.machines = store, clock, machines
        self.trainings = containers.Trainings()
        self.problems = []
        self._plays = []
        self._runs = {}
        self._silent_since = {}
        self._tasks = set()
        store.subscribe(self._seen)

    def register(self, predicate, play):
        """play: `async (PodRun) -> None`, for pods that predicate(pod) holds for; it sets phases, readiness and logs.

        It is cancelled when the pod is told to stop (the kubelet then ends the pod after its `stop-s`), and when its
        machine goes down (it is called again once the machine is back).
        """
        self._plays.append((predicate, play))

    def stop(self):
        for task in list(self._tasks):
            task.cancel()

    # -- heartbeats
    async def run(self):
        beat = 0
        while True:
            for i, node in enumerate(list(self.store.list("nodes"))):
                name = node["metadata"]["name"]
                machine = self.machines.get(name)
                if machine is not None:
                    self._beat(node, machine, full=beat % STATUS_EVERY == 0 or not _is_ready(node))
                if i % 50 == 49:
                    await asyncio.sleep(0)
            beat += 1
            # Not more than one round in a real second, however fast the clock.
            await self.clock.sleep(max(HEARTBEAT_S, self.clock.speed))

    def _beat(self, node, machine, full):
        name = node["metadata"]["name"]
        if machine.alive:
            self._silent_since.pop(name, None)
            self._renew(name)
            if full:
                self._post(node, machine)
            return
        if name not in self._silent_since:
            self._silent_since[name] = self.clock.monotonic()
            for run in self._runs.values():
                if run.node == name:
                    run.power_off.set()
        if _is_ready(node) and self.clock.monotonic() - self._silent_since[name] >= LOST_AFTER_S:
            self._lost(name)

    def _renew(self, name):
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": self.clock.micro()}
        with self.store.acting(f"kubelet/{name}"):
            if self.store.mutate("leases", name, lambda o: o.update(spec=spec), "kube-node-lease") is None:
                self.store.create("leases", {"metadata": {"name": name}, "spec": spec}, "kube-node-lease")

    def _post(self, node, machine):
        name, stamp = node["metadata"]["name"], self.clock.stamp()

        def edit(obj):
            for kind, (status, *words) in HEALTHY.items():
                set_condition(obj, kind, status, stamp, *words, lastHeartbeatTime=stamp)
            obj["status"].setdefault("nodeInfo", {})["bootID"] = machine.boot_id

        with self.store.acting(f"kubelet/{name}"):
            self.store.mutate("nodes", name, edit, status=True)

    def _lost(self, name):
        """What the node controller does once heartbeats stay away.

        Judged here, where silence is known: by the Leases, a stalled process would look like a dead cluster.
        """
        stamp = self.clock.stamp()

        def edit(obj):
            for kind in HEALTHY:
                words = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
                set_condition(obj, kind, "Unknown", stamp, *words)

        with self.store.acting("controller/node-lifecycle"):
            self.store.mutate("nodes", name, edit, status=True)

    def beat_now(self, name):
        """What the next rounds would bring, at once: for a machine that has just come up or gone down."""
        node, machine = self.store.get("nodes", name), self.machines.get(name)
        if node and machine:
            self._beat(node, machine, full=True)
            if not machine.alive:
                self._lost(name)

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
                run.grace_changed.set()
                self._runs.pop(uid, None)
            return
        if not node or node not in self.machines:
            return
        if run is None and not is_finished(pod):
            run = self._runs[uid] = PodRun(self, pod, node)
            self._spawn(self._life(run))
        if run is not None:
            run.pod = pod
            if is_terminating(pod):
                run.stopping.set()
                run.grace_changed.set()

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
        admitted = False
        while not run.stopping.is_set():
            if not run.machine.alive or run.power_off.is_set():
                await self._until_power(run)
                continue
            if not admitted:
                why = self._refusal(run)
                if why:
                    run.reject(*why)
                    break
                admitted = True
            await self._programs(run)
            if run.power_off.is_set():
                run.restarts += 1
            elif not run.stopping.is_set():
                break  # ended by itself
        await run.stopping.wait()
        await self._end(run)

    async def _until_power(self, run):
        while not run.machine.alive and not run.stopping.is_set():
            await _first(run.stopping.wait(), self.clock.sleep(POLL_S))
        run.power_off.clear()

    async def _programs(self, run):
        """Until the pod's programs have ended for good, it is told to stop, its time is up, or its machine goes down."""
        limit = run.pod["spec"].get("activeDeadlineSeconds")
        try:
            ended = _first(self._play(run), run.stopping.wait(), run.power_off.wait())
            await containers.within(self.clock, limit, ended)
        except asyncio.TimeoutError:
            text = "Pod was active on the node longer than the specified deadline"
            await run.exit(KILLED, "DeadlineExceeded", text)

    def _refusal(self, run):
        """(reason, message) when the node does not take the pod, else None. Devices are handed out here."""
        node = self.store.get("nodes", run.node) or {"metadata": {"name": run.node}}
        others = [p for p in self.store.pods_on(run.node) if p["metadata"]["uid"] != run.uid]
        if not fits_selectors(run.pod["spec"], node):
            return "NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"
        free = free_resources(node, others)
        if free["pods"] < 1:
            return "OutOfpods", "Pod was rejected: Node didn't have enough resource: pods"
        for name, amount in requests_of(run.pod).items():
            left = free.get(name, 0)
            if amount <= left:
                continue
            if "/" in name:
                return (
                    "UnexpectedAdmissionError",
                    f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {name}. "
                    f"Requested: {int(amount)}, Available: {int(max(0, left))}, which is unexpected",
                )
            return f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}"
        return None

    async def _play(self, run):
        for predicate, play in self._plays:
            if predicate(run.pod):
                await play(run)
                return
        policy, delay = run.pod["spec"].get("restartPolicy", "Always"), RESTART_S
        await run.initializing()
        while True:
            await self.clock.sleep(containers.setting(run.pod, "start-s", 2))
            began = self.clock.monotonic()
            code = await self._program(run)
            if policy == "Never" or policy == "OnFailure" and code == 0:
                await run.exit(code)
                return
            if self.clock.monotonic() - began > RESTART_FORGOTTEN_S:
                delay = RESTART_S
            name = run.pod["spec"]["containers"][0]["name"]
            await run.restart(f"back-off {delay}s restarting failed container={name} pod={run.name}", code)
            await self.clock.sleep(delay)
            delay = min(2 * delay, RESTART_AT_MOST_S)

    async def _program(self, run):
        """Run the pod's containers; the exit code of the one that ends the pod."""
        pod = run.pod
        found = containers.diagnostic_container(pod)
        if found:
            await run.running(ready=True)
            name, what = found
            return await containers.run_diagnostic(what, run, self._busy(run), lambda text: run.log(text, name))
        await run.running(ready=containers.text_setting(pod, "ready") != "false")
        if containers.behaviour(pod) == "train":
            return await containers.train(run, self.trainings.of(pod))
        run.log("started")
        seconds = containers.text_setting(pod, "run-s")
        if not seconds:
            await asyncio.Event().wait()
        await self.clock.sleep(float(seconds))
        code = int(containers.setting(pod, "exit-code", 0))
        run.log(f"exiting with code {code}")
        return code

    def _busy(self, run):
        """Another workload pod has GPUs of this machine."""
        return any(
            p["metadata"]["uid"] != run.uid
            and gpu_request(p)
            and not is_finished(p)
            and p["status"].get("phase") == "Running"
            for p in self.store.pods_on(run.node)
        )

    # -- the end
    async def _end(self, run):
        """SIGTERM has been sent: use what is needed of the grace, then confirm the end (unless the pod is stuck)."""
        pod = run.current()
        if pod is not None and not is_finished(pod) and run.machine.alive:
            code = await self._stop_programs(run)
            while run.alive and not self._can_end(run):
                await self.clock.sleep(POLL_S)
            if pod["status"].get("phase") == "Running":
                await run.exit(code)
        while run.alive and not self._can_end(run):
            await self.clock.sleep(POLL_S)
        self._runs.pop(run.uid, None)
        if run.alive:
            with self.store.acting(f"kubelet/{run.node}"):
                try:
                    self.store.delete("pods", run.name, run.namespace, {"gracePeriodSeconds": 0})
                except ApiError as error:
                    if error.code != 404:
                        raise

    async def _stop_programs(self, run):
        """Exit code of the programs: killed when the grace, which may be shortened meanwhile, is over before they end."""
        began = self.clock.monotonic()
        stopping = asyncio.ensure_future(self._on_sigterm(run))
        try:
            while not stopping.done():
                left = began + run.grace_s - self.clock.monotonic()
                if left <= 0 or not run.alive:
                    run.log("killed")
                    return KILLED
                run.grace_changed.clear()
                await _first(asyncio.shield(stopping), self.clock.sleep(left), run.grace_changed.wait())
            stopping.result()
            return TERMINATED
        finally:
            stopping.cancel()

    async def _on_sigterm(self, run):
        pod = run.pod
        if containers.behaviour(pod) == "train" and pod["status"].get("phase") == "Running":
            await containers.save_on_sigterm(run, self.trainings.of(pod))
        else:
            await self.clock.sleep(containers.setting(pod, "stop-s", 1))

    def _can_end(self, run):
        pod = run.current()
        return pod is None or run.machine.alive and containers.text_setting(pod, "stuck") != "true"


async def _first(*awaitables):
    """Wait for the first; the others are cancelled. Its error is raised here."""
    tasks = [asyncio.ensure_future(a) for a in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()
    finally:
        pending = [task for task in tasks if not task.done()]
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending)


def _is_ready(node):
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def is_workload(pod):
    """Not a DaemonSet's pod and not the node's own."""
    ref = controller_of(pod)
    return not (ref and ref["kind"] in ("DaemonSet", "Node"))
