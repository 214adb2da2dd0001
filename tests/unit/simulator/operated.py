# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole simulated cluster with its GPU operator in fast motion, inside the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib

from simulator.clock import Clock
from simulator.cluster import Cluster
from simulator.gpu_operator import keys
from simulator.gpu_operator.controller import Settings
from simulator.gpu_operator.policy import operand_of
from simulator.scenario import NodeSpec, Scenario
from simulator.store import Store

OLD, NEW = "575.57.08", "580.95.05"
SPEED = 60
NODES = ("a", "b", "c", "d")
TOLERATED = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


class Operated:
    """rows: the cells of each node in their order (see fleet.py), as a watch would show them."""

    def __init__(self, workloads, settings):
        self.clock = Clock(SPEED)
        self.store = Store(self.clock)
        times = {"driver_load_s": 5, "operand_s": 1, "validator_s": 2, "crash_s": 1, "unload_s": 1, "tick_s": 20}
        scenario = Scenario(
            "test", [NodeSpec(name) for name in NODES], Settings(**{**times, **settings}), workloads, [], 4
        )
        self.rows = {name: [] for name in NODES}
        self.cluster = Cluster(self.store, self.clock, scenario)
        self.machines = self.cluster.machines
        self.store.subscribe(self._seen)

    def _seen(self, change):
        if change is not None and change.resource.plural == "nodes" and change.object["metadata"]["name"] in self.rows:
            row, now = self.rows[change.object["metadata"]["name"]], _cell(change.object)
            if not row or row[-1] != now:
                row.append(now)

    def node(self, name):
        return self.store.get("nodes", name)

    def cell(self, name):
        return _cell(self.node(name))

    def cells(self):
        return [self.cell(name) for name in NODES]

    def line(self, name):
        return ", ".join(self.rows[name])

    def driver(self, name):
        return (self.node(name)["metadata"].get("labels") or {}).get(keys.DRIVER_VERSION)

    def label(self, name, key, value):
        def edit(node):
            node["metadata"]["labels"].pop(key, None)
            if value is not None:
                node["metadata"]["labels"][key] = value

        self.store.mutate("nodes", name, edit)

    def annotate(self, name, key, value):
        self.store.mutate("nodes", name, lambda o: o["metadata"]["annotations"].update({key: value}))

    def cordon(self, name):
        self.store.mutate("nodes", name, lambda o: o["spec"].update(unschedulable=True))

    def taint(self, name, taint=None):
        def edit(node):
            kept = [t for t in node["spec"].get("taints") or [] if t["key"] != "test"]
            node["spec"]["taints"] = kept + ([taint] if taint else [])

        self.store.mutate("nodes", name, edit)

    def patch(self, **changes):
        """Change driver fields of the ClusterPolicy; upgradePolicy is merged, a field of it set to None is dropped."""

        def edit(policy):
            driver = policy["spec"]["driver"]
            rules = {**driver["upgradePolicy"], **changes.pop("upgradePolicy", {})}
            driver.update(changes, upgradePolicy={k: v for k, v in rules.items() if v is not None})

        for row in self.rows.values():
            del row[:-1]
        self.store.mutate("clusterpolicies", "cluster-policy", edit)

    def workload(self, name, node):
        """The running pod of a workload on a node, or None."""
        pods = [p for p in self.store.pods_on(node) if p["metadata"]["labels"].get("app") == name]
        return next((p for p in pods if p["status"].get("phase") == "Running"), None)

    def operand(self, name, operand):
        return next((p for p in self.store.pods_on(name) if operand_of(p) == operand), None)

    def events(self, name):
        found = [e for e in self.store.list("events", "default") if e["involvedObject"]["name"] == name]
        return [(e["type"], e["message"]) for e in found if e["reason"] == "GPUDriverUpgrade"]

    async def until(self, what, test, limit_s=20):
        """limit_s in real seconds."""
        end = asyncio.get_running_loop().time() + limit_s
        while not test():
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"not in time: {what}; rows {self.rows}, problems {self.cluster.problems}")
            await asyncio.sleep(0.01)

    async def pass_s(self, seconds):
        await self.clock.sleep(seconds)


def _cell(node):
    labels, annotations = node["metadata"].get("labels") or {}, node["metadata"].get("annotations") or {}
    state = labels.get(keys.STATE, "-").replace("upgrade-failed", "FAILED")
    for word in ("upgrade-", "-required", "-for-jobs"):
        state = state.replace(word, "") if state != keys.REQUIRED else "required"
    return state + "*" * bool(node["spec"].get("unschedulable")) + "i" * (keys.INITIAL in annotations)


def operated(play, workloads=(), **settings):
    """Run `async play(cluster)` on a cluster that has settled, and see that no part of it has failed."""

    async def run():
        cluster = Operated(list(workloads), settings)
        cluster.cluster.start()
        try:
            calm = ["done" if cluster.cluster.operator.settings.upgrade_policy.get("autoUpgrade", True) else "-"] * 4
            await cluster.until("settled", lambda: not cluster.cluster.missing() and cluster.cells() == calm)
            await play(cluster)
            assert cluster.cluster.problems == []
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await cluster.cluster.stop()

    asyncio.run(run())


def gpu_pods(name, node):
    """A ReplicaSet of one GPU pod that only one node may run."""
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def budget(name, minimum):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": {"app": name}}},
    }
