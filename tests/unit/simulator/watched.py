# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A store with two nodes of eight GPUs and the observer on it; changes are made by hand."""

from __future__ import annotations

import json

from simulator.clock import Clock
from simulator.nodes.gpus import Machines, make_machine
from simulator.objects import set_condition
from simulator.observer import Observer
from simulator.resources import Resource
from simulator.store import Store

OLD, NEW = "575.57.08", "580.95.05"
PRODUCT, OPERATOR, PERSON, SCHEDULER = (
    "gpuops-lifecycle/0.1.0",
    "gpu-operator",
    "kubectl/v1.36.3",
    "controller/scheduler",
)
HOLD = "lifecycle.gpuops.io/hold"
STAMP = "2026-01-01T00:00:00Z"


class Watched:
    """store, machines, observer; helpers name who does what."""

    def __init__(self, nodes=("a", "b"), max_unavailable=1):
        self.store, self.machines = Store(Clock()), Machines()
        self.observer = Observer(self.store, self.store.clock, self.machines, max_unavailable)
        self.store.add_resource(Resource("lifecycle.gpuops.io", "v1alpha1", "noderecords", "NodeRecord", False))
        with self.store.acting("scenario"):
            for namespace in ("default", "gpuops-system", "gpu-operator"):
                self.store.create("namespaces", {"metadata": {"name": namespace}})
            for name in nodes:
                self.machines[name] = make_machine(name, 8, OLD, "NVIDIA-H100-80GB-HBM3", 0)
                self.store.create("nodes", {"metadata": {"name": name}})
                self.ready(name)

    @property
    def rules(self):
        assert self.observer.problems == []
        return [violation["rule"] for violation in self.observer.violations]

    def ready(self, name, status="True"):
        edit = lambda o: set_condition(o, "Ready", status, STAMP)  # noqa: E731
        self.store.mutate("nodes", name, edit, status=True)

    def edit(self, actor, name, edit):
        with self.store.acting(actor):
            self.store.mutate("nodes", name, edit)

    def cordon(self, actor, name):
        self.edit(actor, name, lambda o: o["spec"].update(unschedulable=True))

    def uncordon(self, actor, name):
        self.edit(actor, name, lambda o: o["spec"].pop("unschedulable"))

    def taint(self, actor, name, key):
        self.edit(
            actor, name, lambda o: o["spec"].setdefault("taints", []).append({"key": key, "effect": "NoSchedule"})
        )

    def untaint(self, actor, name, key):
        def edit(node):
            node["spec"]["taints"] = [t for t in node["spec"]["taints"] if t["key"] != key]

        self.edit(actor, name, edit)

    def hold(self, name, actor=PRODUCT, cordon=True):
        def edit(node):
            node["metadata"]["annotations"] = {HOLD: json.dumps([{"owner": "upgrade"}])}
            if cordon:
                node["spec"]["unschedulable"] = True

        self.edit(actor, name, edit)

    def release(self, name, actor=PRODUCT):
        def edit(node):
            node["metadata"].pop("annotations", None)
            node["spec"].pop("unschedulable", None)

        self.edit(actor, name, edit)

    def pod(self, name, node=None, gpus=1, namespace="default", phase="Running", ready=True, owner="ReplicaSet"):
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "x", "uid": f"uid-{owner}", "controller": True}
        body = {
            "metadata": {"name": name, "labels": {"app": "x"}, "ownerReferences": [reference]},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        }
        with self.store.acting(SCHEDULER):
            self.store.create("pods", body, namespace)
            if node:
                self.store.bind(namespace, name, node)

        def edit(pod):
            pod["status"]["phase"] = phase
            set_condition(pod, "Ready", "True" if ready else "False", STAMP)

        self.store.mutate("pods", name, edit, namespace, status=True)

    def budget(self, minimum):
        spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": "x"}}}
        self.store.create("poddisruptionbudgets", {"metadata": {"name": "x"}, "spec": spec}, "default")
        status = {"desiredHealthy": minimum, "currentHealthy": 2, "disruptionsAllowed": 5, "observedGeneration": 1}
        self.store.mutate("poddisruptionbudgets", "x", lambda o: o.update(status=status), "default", status=True)

    def end(self, actor, name, grace=30):
        with self.store.acting(actor):
            self.store.delete("pods", name, "default", {"gracePeriodSeconds": grace})

    def load(self, name, version=NEW):
        """Unload the driver and load another one, as the operator does."""
        machine = self.machines[name]
        for now in (None, version):
            before, machine.driver = machine.driver, now
            machine.note("driver", OPERATOR, STAMP, **{"from": before, "to": now})

    def record(self, name, driver=NEW, verdict="pass", test="pass", kind="Qualification", uid=None):
        spec = {
            "kind": kind,
            "node": {"name": name, "uid": uid or self.store.get("nodes", name)["metadata"]["uid"]},
            "fingerprint": {"inputs": {"compute": {"driver": driver}}},
            "tests": [{"name": "dcgmi-diag", "verdict": test}] if test else [],
            "verdict": verdict,
        }
        with self.store.acting(PRODUCT):
            self.store.create("noderecords", {"metadata": {"generateName": f"{name}-"}, "spec": spec})
