# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node controller: taints that follow cordons and conditions, pods of nodes that are not ready or not there."""

from __future__ import annotations

from simulator.controllers.base import Controller
from simulator.objects import condition, set_condition

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
}
OWN = (UNSCHEDULABLE, NOT_READY, UNREACHABLE, *PRESSURES.values())


def wanted_taints(node):
    """[(key, effect)] that this controller keeps on a node."""
    found = [(UNSCHEDULABLE, "NoSchedule")] if (node.get("spec") or {}).get("unschedulable") else []
    conditions = {c["type"]: c["status"] for c in (node.get("status") or {}).get("conditions") or []}
    found += [(key, "NoSchedule") for kind, key in PRESSURES.items() if conditions.get(kind) == "True"]
    ready = conditions.get("Ready", "Unknown")
    if ready == "False":
        found += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif ready == "Unknown":
        found += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    return found


class NodeLifecycle(Controller):
    name = "node-lifecycle"

    def seen(self, change):
        name = change.object["metadata"]["name"]
        if change.resource.plural == "nodes" and change.type != "DELETED":
            self.mark(name)
        elif change.resource.plural == "nodes":
            for pod in self.store.pods_on(name):
                self.mark(("orphan", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def reconcile(self, key):
        if isinstance(key, tuple):
            self._end_orphan(*key[1:])
            return
        node = self.store.get("nodes", key)
        if node is None:
            return
        self._taint(node)
        if not condition(node, "Ready"):
            self._pods_are_not_ready(key)

    def _taint(self, node):
        taints = (node.get("spec") or {}).get("taints") or []
        present = {(t["key"], t["effect"]) for t in taints if t["key"] in OWN}
        wanted = wanted_taints(node)
        if present == set(wanted):
            return
        stamp = self.clock.stamp()
        kept = [t for t in taints if t["key"] not in OWN or (t["key"], t["effect"]) in wanted]
        added = [{"key": k, "effect": e, "timeAdded": stamp} for k, e in wanted if (k, e) not in present]

        def edit(obj):
            obj["spec"]["taints"] = kept + added
            if not obj["spec"]["taints"]:
                del obj["spec"]["taints"]

        self.store.mutate("nodes", node["metadata"]["name"], edit)

    def _pods_are_not_ready(self, name):
        stamp = self.clock.stamp()
        for pod in self.store.pods_on(name):
            if condition(pod, "Ready"):
                meta = pod["metadata"]
                edit = lambda p: set_condition(p, "Ready", "False", stamp, "NodeNotReady")  # noqa: E731
                self.store.mutate("pods", meta["name"], edit, meta["namespace"], status=True)

    def _end_orphan(self, namespace, name):
        """Its node is gone (pod garbage collector)."""
        pod = self.store.get("pods", name, namespace)
        if pod is None or self.store.get("nodes", pod["spec"].get("nodeName", "")):
            return
        stamp = self.clock.stamp()

        def edit(obj):
            if obj["status"].get("phase") not in ("Succeeded", "Failed"):
                obj["status"]["phase"] = "Failed"
                words = ("DeletionByPodGC", "PodGC: node no longer exists")
                set_condition(obj, "DisruptionTarget", "True", stamp, *words)

        self.store.mutate("pods", name, edit, namespace, status=True)
        self.store.delete("pods", name, namespace, {"gracePeriodSeconds": 0})
