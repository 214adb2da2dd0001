# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the operator's pods do on a node: driver-manager and driver, device plugin, feature discovery, validator."""

from __future__ import annotations

import time

from simulator.gpu_operator import keys
from simulator.gpu_operator.policy import OPERANDS, PAUSED_FOR_DRIVER, deploy_label, operand_of
from simulator.nodes.kubelet import is_workload
from simulator.objects import condition, gpu_request, is_terminating

POLL_S = 1
FEATURES = (
    "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory", "nvidia.com/gpu.family",
    "nvidia.com/gpu.machine", "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor", "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.capable", "nvidia.com/mig.strategy", "nvidia.com/gfd.timestamp",
    keys.DRIVER_VERSION, "nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver-version.minor",
    "nvidia.com/cuda.driver-version.revision", "nvidia.com/cuda.runtime-version.full", "nvidia.com/mps.capable",
    "nvidia.com/gpu.mode", "nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev",
)  # fmt: skip


class Operands:
    """settings: timings in simulated seconds (driver_load_s, unload_s, operand_s, validator_s, crash_s)."""

    def __init__(self, store, clock, machines, kubelet, settings):
        self.store, self.clock, self.machines, self.settings = store, clock, machines, settings
        plays = {
            "driver": self.driver,
            "device-plugin": self.device_plugin,
            "gfd": self.feature_discovery,
            "validator": self.validator,
        }
        for operand in OPERANDS:
            play = plays.get(operand, self.plain)
            kubelet.register(lambda pod, operand=operand: operand_of(pod) == operand, play)

    def on_node(self, node, operands):
        return [p for p in self.store.pods_on(node) if operand_of(p) in operands]

    def is_ready(self, node, operand):
        return any(condition(p, "Ready") and not is_terminating(p) for p in self.on_node(node, (operand,)))

    def labels(self, node, changes):
        def edit(obj):
            labels = obj["metadata"].setdefault("labels", {})
            for key, value in changes.items():
                if value is None:
                    labels.pop(key, None)
                else:
                    labels[key] = value

        with self.store.acting("gpu-operator"):
            self.store.mutate("nodes", node, edit)

    async def until(self, test):
        while not test():
            await self.clock.sleep(POLL_S)

    # -- the driver
    async def driver(self, run):
        await run.initializing()
        image = run.pod["spec"]["containers"][0]["image"]
        version = image.rsplit(":", 1)[1].split("-")[0]
        if run.machine.driver != version:
            await self._unload(run)
        if not self._auto_upgrade():
            # k8s-driver-manager opens the node by itself, whoever closed it (NVIDIA/k8s-driver-manager#212).
            with self.store.acting("gpu-operator"):
                self.store.mutate("nodes", run.node, lambda o: o["spec"].pop("unschedulable", None))
        await run.running(ready=False)
        if run.machine.driver != version:
            await self._load(run, version)
        await run.set_ready(True)
        await run.stopping.wait()

    async def _unload(self, run):
        """driver-manager: pause the operands, wait until nothing uses the driver, unload it, let the operands back."""
        node = self.store.get("nodes", run.node)
        labels = node["metadata"]["labels"] if node else {}
        paused = [o for o in PAUSED_FOR_DRIVER if labels.get(deploy_label(o)) in ("true", keys.PAUSED)]
        self.labels(run.node, {deploy_label(o): keys.PAUSED for o in paused})
        await self.until(lambda: not self.on_node(run.node, paused))
        while run.machine.driver and self._users(run.node):
            run.log("Could not unload NVIDIA driver kernel modules, driver is in use")
            await run.restart("Could not unload NVIDIA driver kernel modules, driver is in use")
            await self.clock.sleep(self.settings.crash_s)
        self._note_driver(run, None)
        await self.clock.sleep(self.settings.unload_s)
        self.labels(run.node, {deploy_label(o): "true" for o in paused})

    def _note_driver(self, run, version):
        before, run.machine.driver = run.machine.driver, version
        if before != version:
            run.machine.note("driver", "gpu-operator", self.clock.stamp(), **{"from": before, "to": version})

    def _users(self, node):
        running = ("Running", "Pending")
        pods = self.store.pods_on(node)
        return [p for p in pods if is_workload(p) and gpu_request(p) and p["status"].get("phase") in running]

    def _auto_upgrade(self):
        policies = self.store.list("clusterpolicies")
        return any((p["spec"]["driver"].get("upgradePolicy") or {}).get("autoUpgrade") for p in policies)

    async def _load(self, run, version):
        if "no_return" in run.machine.faults:
            run.machine.alive = False
            await self.until(lambda: run.machine.alive)
        await self.clock.sleep(self.settings.driver_load_s)
        while "driver_crashloop" in run.machine.faults:
            await run.restart("driver failed to load: nvidia.ko: unknown symbol")
            await self.clock.sleep(self.settings.crash_s)
        self._note_driver(run, version)
        run.log(f"NVIDIA driver {version} is loaded")

    # -- the others
    async def plain(self, run):
        await run.initializing()
        needed = "driver" if operand_of(run.pod) == "toolkit" else "toolkit"
        await self.until(lambda: self.is_ready(run.node, needed))
        await self.clock.sleep(self.settings.operand_s)
        await run.running(ready=True)
        await run.stopping.wait()

    async def device_plugin(self, run):
        await run.initializing()
        await self.until(lambda: self.is_ready(run.node, "toolkit"))
        await self.clock.sleep(self.settings.operand_s)
        await run.running(ready=True)
        known = set()
        try:
            # An unhealthy GPU stays unhealthy until the plugin restarts (k8s-device-plugin #426).
            while not run.stopping.is_set():
                known |= {gpu.index for gpu in run.machine.gpus if not gpu.healthy}
                self._devices(run.node, len(run.machine.visible()), len(run.machine.gpus) - len(known))
                await self.clock.sleep(POLL_S * 5)
        finally:
            self._devices(run.node, None, 0)

    def _devices(self, node, capacity, allocatable):
        found = self.store.get("nodes", node)
        if found is None:
            return
        status = found["status"]
        wanted = {"capacity": capacity, "allocatable": allocatable}
        have = {field: (status.get(field) or {}).get("nvidia.com/gpu") for field in wanted}
        if all(value is None or have[field] == str(value) for field, value in wanted.items()):
            return

        def edit(obj):
            for field, value in wanted.items():
                if value is not None:
                    obj["status"].setdefault(field, {})["nvidia.com/gpu"] = str(value)

        with self.store.acting(f"kubelet/{node}"):
            self.store.mutate("nodes", node, edit, status=True)

    async def feature_discovery(self, run):
        await run.initializing()
        await self.until(lambda: self.is_ready(run.node, "toolkit"))
        await self.clock.sleep(self.settings.operand_s)
        await run.running(ready=True)
        self.labels(run.node, features(run.machine))
        try:
            await run.stopping.wait()
        finally:
            self.labels(run.node, dict.fromkeys(FEATURES))

    async def validator(self, run):
        await run.initializing()
        needed = ("driver", "toolkit", "device-plugin")
        await self.until(lambda: all(self.is_ready(run.node, operand) for operand in needed))
        await self.until(lambda: "validator_stuck" not in run.machine.faults)
        await self.clock.sleep(self.settings.validator_s)
        await run.running(ready=True)
        await run.stopping.wait()


def features(machine):
    """Labels of GPU feature discovery for a machine."""
    major, minor, revision = [*machine.driver.split("."), "", ""][:3]
    return {
        "nvidia.com/gpu.product": machine.product,
        "nvidia.com/gpu.count": str(len(machine.visible())),
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.machine": "DGXH100",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gfd.timestamp": str(int(time.time())),
        keys.DRIVER_VERSION: machine.driver,
        "nvidia.com/cuda.driver-version.major": major,
        "nvidia.com/cuda.driver-version.minor": minor,
        "nvidia.com/cuda.driver-version.revision": revision,
        # The older names are still published.
        "nvidia.com/cuda.driver.major": major,
        "nvidia.com/cuda.driver.minor": minor,
        "nvidia.com/cuda.driver.rev": revision,
        "nvidia.com/cuda.runtime-version.full": "13.0" if int(major) >= 580 else "12.9",
    }
