# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node controller: taints that follow conditions and cordons, and what happens to pods on a node that is gone."""

from __future__ import annotations

from simulator.controllers.base import Controller
from simulator.objects import condition, is_terminating, set_condition

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def wanted_taints(node):
    """[(key, effect)] that this controller keeps on a node."""
    found = [(UNSCHEDULABLE, "NoSchedule")] if (node.get("spec") or {}).get("unschedulable") else []
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((c["status"] for c in conditions if c["type"] == "Ready"), "Unknown")
    if ready == "False":
        found += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif ready == "Unknown":
        found += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    return found


class NodeLifecycle(Controller):
    name = "node-lifecycle"

    def seen(self, change):
        if change.resource.plural == "nodes" and change.type != "DELETED":
            self.mark(change.object["metadata"]["name"])
        elif change.resource.plural == "nodes":
            for pod in self.store.pods_on(change.object["metadata"]["name"]):
                self.mark(("orphan", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def reconcile(self, key):
        if isinstance(key, tuple):
            self.store.delete("pods", key[2], key[1], {"gracePeriodSeconds": 0})
            return
        node = self.store.get("nodes", key)
        if node is None:
            return
        own = (UNSCHEDULABLE, NOT_READY, UNREACHABLE)
        taints = (node.get("spec") or {}).get("taints") or []
        present = {(t["key"], t["effect"]) for t in taints if t["key"] in own}
        wanted = wanted_taints(node)
        if present != set(wanted):
            stamp = self.clock.stamp()

            def edit(obj):
                kept = [t for t in taints if t["key"] not in own or (t["key"], t["effect"]) in wanted]
                added = [{"key": k, "effect": e, "timeAdded": stamp} for k, e in wanted if (k, e) not in present]
                obj["spec"]["taints"] = kept + added
                if not obj["spec"]["taints"]:
                    del obj["spec"]["taints"]

            self.store.mutate("nodes", key, edit)
        if not condition(node, "Ready"):
            self._pods_of_lost_node(key)

    def _pods_of_lost_node(self, name):
        stamp = self.clock.stamp()
        for pod in self.store.pods_on(name):
            if condition(pod, "Ready"):
                meta = pod["metadata"]
                edit = lambda p: set_condition(p, "Ready", "False", stamp, "NodeNotReady")  # noqa: E731
                self.store.mutate("pods", meta["name"], edit, meta["namespace"], status=True)
            self._evict_later(pod, name)

    def _evict_later(self, pod, node):
        """Taint-based eviction after the pod's tolerationSeconds; pods that tolerate for good stay."""
        for toleration in pod["spec"].get("tolerations") or []:
            covers = toleration.get("key") in (NOT_READY, UNREACHABLE, None) and toleration.get("effect") in (
                "NoExecute",
                None,
            )
            if covers and "tolerationSeconds" not in toleration:
                return
            if covers:
                meta = pod["metadata"]
                self.clock.call_later(
                    toleration["tolerationSeconds"], self._evict, meta["namespace"], meta["name"], meta["uid"], node
                )
                return

    def _evict(self, namespace, name, uid, node_name):
        node, pod = self.store.get("nodes", node_name), self.store.get("pods", name, namespace)
        if pod is None or pod["metadata"]["uid"] != uid or is_terminating(pod) or (node and condition(node, "Ready")):
            return
        with self.store.acting("controller/taint-eviction"):
            self.store.delete("pods", name, namespace)
