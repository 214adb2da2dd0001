# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observer: watches every change and writes down what must never happen. It shares no code with the product.

It knows the product's public shapes only: the hold annotation and taint, NodeRecords, and its user agent.
"""

from __future__ import annotations

import json

from simulator.objects import condition, gpu_request, is_finished, is_terminating, key_of

PRODUCT = "gpuops-lifecycle"
DOMAIN = "lifecycle.gpuops.io"
HOLD, HOLD_TAINT = f"{DOMAIN}/hold", f"{DOMAIN}/hold"
EXEMPT = ("gpuops-system", "gpu-operator", "kube-system")
CONTROLLER_TAINTS = ("node.kubernetes.io/",)


def holders(node):
    """Owners in the hold annotation; one unnamed owner when it cannot be read."""
    text = (node["metadata"].get("annotations") or {}).get(HOLD)
    if not text:
        return []
    try:
        return [entry["owner"] for entry in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        return ["?"]


def is_out(node):
    return bool((node.get("spec") or {}).get("unschedulable")) or bool(holders(node))


def is_gpu_workload(pod):
    return gpu_request(pod) > 0 and pod["metadata"].get("namespace") not in EXEMPT


class Observer:
    def __init__(self, store, clock, machines, max_unavailable):
        self.store, self.clock, self.machines = store, clock, machines
        self.max_unavailable = max_unavailable
        self.violations = []
        self.problems = []
        self._cordoned_by = {}
        self._tainted_by = {}
        self._proven = {}
        self._changed_at = {}
        self._changed_in = {}
        self._created_in = {}
        store.subscribe(self._seen)

    def _report(self, rule, message, actor, **where):
        self.violations.append({"rule": rule, "message": message, "actor": actor, "at": self.clock.stamp(), **where})

    def _seen(self, change):
        if change is None:
            return
        plural = change.resource.plural
        if plural == "nodes":
            self._node(change)
        elif plural == "pods":
            self._pod(change)
        elif plural == "noderecords" and change.type == "ADDED":
            self._created_in[change.object["metadata"]["uid"]] = change.version
        self._machines(change.actor)

    # -- machines
    def _machines(self, actor):
        """Changes made to a machine since the last look."""
        for name, machine in self.machines.items():
            seen = self._changed_at.get(name, (machine.driver, machine.boot_id, machine.wiped))
            now = (machine.driver, machine.boot_id, machine.wiped)
            if seen == now:
                self._changed_at[name] = now
                continue
            self._changed_at[name] = now
            what = "driver change" if seen[0] != now[0] else "reboot" if seen[1] != now[1] else "wipe"
            if what == "wipe":
                if self.store.get("nodes", name) is not None:
                    self._report(
                        "wiped-while-member", f"the disks of {name} were wiped while it is a node", actor, node=name
                    )
                continue
            self._proven[name] = False
            self._changed_in[name] = self.store.version
            pods = [p for p in self.store.pods_on(name) if is_gpu_workload(p) and p["status"].get("phase") == "Running"]
            if pods:
                listed = ", ".join(p["metadata"]["name"] for p in pods)
                self._report("change-under-load", f"{what} on {name} while {listed} runs there", actor, node=name)
            node = self.store.get("nodes", name)
            if node and now[0] is not None and not is_out(node):
                self._report("unproven-in-service", f"{what} on {name} while it may be scheduled to", actor, node=name)

    def _has_proof(self, node):
        """A passing qualification of this node for the driver it runs, made after the last change."""
        name, machine = node["metadata"]["name"], self.machines.get(node["metadata"]["name"])
        for record in self.store.list("noderecords") if self.store.resource("noderecords") else []:
            spec = record["spec"]
            driver = (((spec.get("fingerprint") or {}).get("inputs") or {}).get("compute") or {}).get("driver")
            if (
                spec["kind"] == "Qualification"
                and spec.get("verdict") == "pass"
                and spec["node"]["uid"] == node["metadata"]["uid"]
                and machine is not None
                and driver == machine.driver
                and self._created_in.get(record["metadata"]["uid"], 0) > self._changed_in.get(name, 0)
            ):
                return True
        return False

    # -- nodes
    def _node(self, change):
        name, node, old, actor = change.object["metadata"]["name"], change.object, change.old, change.actor
        if change.type == "DELETED":
            pods = [p for p in self.store.pods_on(name) if is_gpu_workload(p) and not is_finished(p)]
            if pods:
                listed = ", ".join(p["metadata"]["name"] for p in pods)
                self._report("deleted-with-pods", f"{name} was deleted while {listed} was on it", actor, node=name)
            return
        self._cordons(name, node, old, actor)
        self._taints(name, node, old, actor)
        if old is None:
            return
        if is_out(old) and not is_out(node) and self._proven.get(name) is False:
            if self._has_proof(node):
                self._proven[name] = True
            else:
                text = f"{name} may be scheduled to again after a change, without a passing record for its state"
                self._report("unproven-in-service", text, actor, node=name)
        took = [owner for owner in holders(node) if owner not in holders(old)]
        if took and PRODUCT in actor:
            out = sorted(n["metadata"]["name"] for n in self.store.list("nodes") if self._is_gpu_node(n) and is_out(n))
            if len(out) > self.max_unavailable:
                text = f"{len(out)} nodes are out ({', '.join(out)}), {self.max_unavailable} may be"
                self._report("budget-of-nodes", text, actor, node=name)

    def _is_gpu_node(self, node):
        machine = self.machines.get(node["metadata"]["name"])
        return machine is not None and bool(machine.gpus)

    def _cordons(self, name, node, old, actor):
        before, now = bool((old or {}).get("spec", {}).get("unschedulable")), bool(node["spec"].get("unschedulable"))
        if now and not before:
            self._cordoned_by[name] = actor
        elif before and not now:
            by = self._cordoned_by.pop(name, "?")
            if self._family(actor) != self._family(by):
                self._report("foreign-cordon", f"the cordon that {by} put on {name} was taken off", actor, node=name)

    def _taints(self, name, node, old, actor):
        def of(obj):
            return {(t["key"], t["effect"]) for t in ((obj or {}).get("spec") or {}).get("taints") or []}

        for taint in of(node) - of(old):
            self._tainted_by[(name, *taint)] = actor
        for taint in of(old) - of(node):
            by = self._tainted_by.pop((name, *taint), "?")
            own = self._family(actor) == self._family(by) or taint[0].startswith(CONTROLLER_TAINTS)
            if not own and PRODUCT in actor:
                self._report(
                    "foreign-taint", f"the taint {taint[0]} that {by} put on {name} was taken off", actor, node=name
                )

    @staticmethod
    def _family(actor):
        """Everything of the product is one; people may undo one another's kubectl; controllers are their own."""
        return (
            PRODUCT
            if PRODUCT in actor
            else "people"
            if actor.startswith(("kubectl", "OpenAPI-Generator", "Python"))
            else actor
        )

    # -- pods
    def _pod(self, change):
        pod, old = change.object, change.old
        node_name = pod["spec"].get("nodeName")
        bound = node_name and (old is None or not old["spec"].get("nodeName")) and change.type != "DELETED"
        if bound and is_gpu_workload(pod):
            node = self.store.get("nodes", node_name)
            held = node is not None and (holders(node) or self._has_hold_taint(node))
            if held or self._proven.get(node_name) is False:
                why = "held" if held else "unproven"
                text = f"{pod['metadata']['name']} was started on {node_name}, which is {why}"
                self._report("started-on-held", text, change.actor, node=node_name, pod=pod["metadata"]["name"])
        if old is not None and is_terminating(pod) and not is_terminating(old) and condition(old, "Ready"):
            self._budget(pod, change.actor)

    @staticmethod
    def _has_hold_taint(node):
        return any(t["key"] == HOLD_TAINT for t in (node.get("spec") or {}).get("taints") or [])

    def _budget(self, pod, actor):
        """After a pod was told to stop by somebody: do its budgets still have the healthy pods they want?"""
        namespace, _name = key_of(pod)
        if actor.startswith("controller/"):
            return
        for pdb in self.store.budgets_of(namespace, pod):
            wanted = (pdb.get("status") or {}).get("desiredHealthy", 0)
            healthy = sum(
                condition(p, "Ready") and not is_terminating(p)
                for p in self.store.list("pods", namespace)
                if any(b is pdb for b in self.store.budgets_of(namespace, p))
            )
            if healthy < wanted:
                name = pdb["metadata"]["name"]
                text = f"budget {namespace}/{name} wants {wanted} healthy pods and has {healthy}"
                self._report("pdb-broken", text, actor, pdb=f"{namespace}/{name}", pod=pod["metadata"]["name"])
