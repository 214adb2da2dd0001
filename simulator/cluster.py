# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All parts of one simulated cluster put together."""

from __future__ import annotations

import asyncio
import hashlib

from simulator.controllers.daemonsets import DaemonSets
from simulator.controllers.deployments import Deployments
from simulator.controllers.disruption import Disruption
from simulator.controllers.garbage import CustomResources, Garbage, Namespaces
from simulator.controllers.jobs import Jobs
from simulator.controllers.nodelifecycle import NodeLifecycle
from simulator.controllers.replicasets import ReplicaSets
from simulator.controllers.scheduler import Scheduler
from simulator.controllers.statefulsets import StatefulSets
from simulator.controllers.tainteviction import TaintEviction
from simulator.errors import ApiError
from simulator.gpu_operator.controller import GpuOperator
from simulator.gpu_operator.operands import features
from simulator.gpu_operator.policy import OPERANDS, deploy_label
from simulator.nodes.gpus import Machines, make_machine
from simulator.nodes.kubelet import Kubelet
from simulator.observer import Observer
from simulator.scenario import BadScenario
from simulator.settling import missing

CONTROLLERS = (
    CustomResources, Namespaces, NodeLifecycle, TaintEviction, Garbage, DaemonSets, ReplicaSets, Deployments, StatefulSets, Jobs,
    Disruption, Scheduler,
)  # fmt: skip
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class Cluster:
    """Fills a store from a scenario (BadScenario if that cannot be) and runs everything on it until `stop`."""

    def __init__(self, store, clock, scenario, seed=0):
        self.store, self.clock, self.scenario = store, clock, scenario
        self.machines = Machines()
        self.observer = Observer(store, clock, self.machines, scenario.max_unavailable)
        self.kubelet = Kubelet(store, clock, self.machines)
        self.controllers = [kind(store, clock) for kind in CONTROLLERS]
        self.operator = GpuOperator(store, clock, self.machines, self.kubelet, scenario.operator)
        self._tasks = []
        self._fill(seed)

    @property
    def problems(self):
        parts = [*self.controllers, self.kubelet, self.operator, self.observer]
        return [text for part in parts for text in part.problems]

    def start(self):
        for part in (*self.controllers, self.kubelet, self.operator):
            self._tasks.append(asyncio.ensure_future(part.run()))

    async def stop(self):
        self.kubelet.stop()
        self.operator.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _fill(self, seed):
        with self.store.acting("scenario"):
            for name in NAMESPACES:
                self.store.create("namespaces", {"metadata": {"name": name}})
            self.operator.install()
            for spec in self.scenario.nodes:
                driver = spec.driver or self.scenario.operator.driver
                machine = make_machine(spec.name, spec.gpus, driver, spec.product, seed)
                self.machines[spec.name] = machine
                self.store.create("nodes", node_object(spec, machine))
            for i, manifest in enumerate(self.scenario.workloads):
                self._create(f"workloads[{i}]", manifest)

    def _create(self, where, manifest):
        place, version, kind = f"{self.scenario.path}: {where}", manifest["apiVersion"], manifest["kind"]
        resource = next((r for r in self.store.resources if r.kind == kind and r.group_version == version), None)
        if resource is None:
            raise BadScenario(f"{place}: the simulated cluster has no {version} {kind}.")
        namespace = manifest["metadata"].get("namespace", "default") if resource.namespaced else ""
        try:
            self.store.create(resource, manifest, namespace)
        except ApiError as error:
            raise BadScenario(f"{place}: {error}.") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise BadScenario(f"{place} is no complete {kind}: {error!r}.") from error

    def missing(self):
        """What the cluster still lacks of being at rest, a sentence each."""
        return missing(self.store, self.machines)


def node_object(spec, machine):
    """The Node as it stands before its kubelet's first heartbeat, GPU labels of a node that was up before included."""
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": spec.zone,
        **spec.labels,
    }
    sizes = {"cpu": "192", "memory": "2113405464Ki", "ephemeral-storage": "3750000000Ki", "pods": "110"}
    taints = []
    if spec.gpus:
        labels.update(
            {
                "feature.node.kubernetes.io/pci-10de.present": "true",
                "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
                "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/mig.config": "all-disabled",
                "nvidia.com/mig.config.state": "success",
                "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
                **{deploy_label(operand): "true" for operand in OPERANDS},
                **features(machine),
            }
        )
        taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
    digest = hashlib.sha256(spec.name.encode()).hexdigest()
    return {
        "metadata": {"name": spec.name, "labels": labels, "annotations": {}},
        "spec": {"providerID": f"simulator://{spec.zone}/{spec.name}", **({"taints": taints} if taints else {})},
        "status": {
            "capacity": sizes,
            "allocatable": dict(sizes),
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.{int(digest[:2], 16)}.{int(digest[2:4], 16)}"},
                {"type": "Hostname", "address": spec.name},
            ],
            "conditions": [],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": "v1.36.3",
                "kernelVersion": "6.8.0-60-generic",
                "osImage": "Ubuntu 22.04.5 LTS",
                "containerRuntimeVersion": "containerd://2.1.4",
                "bootID": machine.boot_id,
                "machineID": digest[:32],
                "systemUUID": f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}",
                "kubeProxyVersion": "",
            },
        },
    }
