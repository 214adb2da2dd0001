# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controllers and kubelets on a clock that moves only when a test says so."""

from __future__ import annotations

import asyncio
import datetime
import heapq
import itertools

from simulator.clock import Clock
from simulator.controllers.daemonsets import DaemonSets
from simulator.controllers.deployments import Deployments
from simulator.controllers.disruption import Disruption
from simulator.controllers.garbage import Garbage, Namespaces
from simulator.controllers.jobs import Jobs
from simulator.controllers.nodelifecycle import NodeLifecycle
from simulator.controllers.replicasets import ReplicaSets
from simulator.controllers.scheduler import Scheduler
from simulator.controllers.statefulsets import StatefulSets
from simulator.controllers.tainteviction import TaintEviction
from simulator.nodes.gpus import Machines, make_machine
from simulator.nodes.kubelet import Kubelet
from simulator.objects import condition, set_condition
from simulator.store import Store

STEER = "simulator.gpuops.io/"
STAMP = "2026-01-01T00:00:00Z"
CONTROLLERS = (
    Namespaces, NodeLifecycle, TaintEviction, Garbage, DaemonSets, ReplicaSets, Deployments, StatefulSets, Jobs,
    Disruption, Scheduler,
)  # fmt: skip
QUIET = 30
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


class Timer:
    def __init__(self):
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class StepClock(Clock):
    def __init__(self):
        super().__init__(1.0)
        self.time, self._timers, self._count = 0.0, [], itertools.count()

    def monotonic(self):
        return self.time

    def now(self):
        return BEGIN + datetime.timedelta(seconds=self.time)

    async def sleep(self, seconds):
        future = asyncio.get_running_loop().create_future()
        self.call_later(seconds, lambda: future.done() or future.set_result(None))
        await future

    def call_later(self, seconds, callback, *args):
        timer = Timer()
        heapq.heappush(self._timers, (self.time + seconds, next(self._count), timer, callback, args))
        return timer

    def pop(self, until):
        """Move to the next timer due by then and fire it; False when there is none."""
        if not self._timers or self._timers[0][0] > until:
            self.time = until
            return False
        self.time, _number, timer, callback, args = heapq.heappop(self._timers)
        if not timer.cancelled:
            callback(*args)
        return True


class World:
    """store, clock, kubelet, machines; nodes a, b, c with eight GPUs each unless told otherwise."""

    def __init__(self, nodes=("a", "b", "c"), gpus=8, kubelets=True):
        self.clock = StepClock()
        self.store, self.machines = Store(self.clock), Machines()
        self.controllers = [kind(self.store, self.clock) for kind in CONTROLLERS]
        self.kubelet = Kubelet(self.store, self.clock, self.machines)
        self._parts = [*self.controllers, *([self.kubelet] if kubelets else [])]
        for namespace in ("default", "kube-node-lease"):
            self.store.create("namespaces", {"metadata": {"name": namespace}})
        for name in nodes:
            self.node(name, gpus, kubelets)

    def node(self, name, gpus=8, kubelet=True, **labels):
        if kubelet:
            self.machines[name] = make_machine(name, gpus, "575.57.08", "NVIDIA-H100-80GB-HBM3", 0)
        sizes = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        all_labels = {"kubernetes.io/hostname": name, **labels}
        self.store.create(
            "nodes",
            {"metadata": {"name": name, "labels": all_labels}, "status": {"capacity": sizes, "allocatable": sizes}},
        )
        ready = lambda o: set_condition(o, "Ready", "True", STAMP)  # noqa: E731
        self.store.mutate("nodes", name, ready, status=True)

    async def start(self):
        self.tasks = [asyncio.ensure_future(part.run()) for part in self._parts]
        await self.settle()

    async def stop(self):
        self.kubelet.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def settle(self):
        """Until nothing has been written for a while, without time passing."""
        quiet, version = 0, self.store.version
        while quiet < QUIET:
            await asyncio.sleep(0)
            quiet = quiet + 1 if version == self.store.version else 0
            version = self.store.version

    async def pass_s(self, seconds):
        await self.settle()
        end = self.clock.time + seconds
        while self.clock.pop(end):
            await self.settle()
        await self.settle()

    # -- what tests ask for
    def taint(self, name, key="maintenance", effect="NoSchedule"):
        def edit(node):
            node["spec"].setdefault("taints", []).append({"key": key, "effect": effect})

        self.store.mutate("nodes", name, edit)

    def cordon(self, name):
        self.store.mutate("nodes", name, lambda o: o["spec"].update(unschedulable=True))

    def create(self, plural, name, spec, labels=None, annotations=None, namespace="default"):
        metadata = {"name": name, "labels": labels or {"app": name}, "annotations": annotations or {}}
        return self.store.create(plural, {"metadata": metadata, "spec": spec}, namespace)

    def pods(self, app):
        return [p for p in self.store.list("pods") if p["metadata"].get("labels", {}).get("app") == app]

    def ready(self, app):
        return [p for p in self.pods(app) if condition(p, "Ready") and "deletionTimestamp" not in p["metadata"]]

    def get(self, plural, name):
        return self.store.get(plural, name, "default")

    def status(self, plural, name):
        return self.get(plural, name).get("status") or {}

    def pod(self, name):
        return self.get("pods", name)

    def delete(self, plural, name, **options):
        return self.store.delete(plural, name, "default", options)

    def evict(self, name):
        self.store.evict("default", name, {"metadata": {"name": name}})


def pod_spec(gpus=0, grace=30, **more):
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "c", "image": "registry.example.com/app:1", "resources": resources}
    return {"containers": [container], "terminationGracePeriodSeconds": grace, **more}


def template(app, gpus=0, steer=None, **spec):
    annotations = {STEER + key: str(value) for key, value in (steer or {}).items()}
    return {"metadata": {"labels": {"app": app}, "annotations": annotations}, "spec": pod_spec(gpus, **spec)}


def workload(app, replicas=None, gpus=0, steer=None, more=None, **spec):
    """Spec of a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    found = {"selector": {"matchLabels": {"app": app}}, "template": template(app, gpus, steer, **spec), **(more or {})}
    return found if replicas is None else {**found, "replicas": replicas}


def stepping(play, *args, **kwargs):
    """Run `async play(world)`; no part of the world may have failed."""

    async def run():
        world = World(*args, **kwargs)
        await world.start()
        try:
            await play(world)
            assert [text for part in world._parts for text in part.problems] == []
        finally:
            await world.stop()

    asyncio.run(run())
