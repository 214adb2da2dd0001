# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the observer remembers: who put what onto a node, and which nodes still owe a proof."""

from __future__ import annotations

from simulator.observer.shapes import is_cordoned, is_out, taints


class Ledger:
    """Rules read it as it stood before the change they judge.

    cordoned_by: {node: actor}. tainted_by: {(node, key, effect): actor}.
    changed: {node: version of the store when its machine was last changed, or the node came back with another UID}.
    """

    def __init__(self, store, machines, max_unavailable):
        self.store, self.machines, self.max_unavailable = store, machines, max_unavailable
        self.cordoned_by, self.tainted_by, self.changed = {}, {}, {}
        self._recorded = {}
        self._deleted = set()

    def note(self, change):
        if change.resource.plural == "nodes":
            self._note_node(change.object["metadata"]["name"], change)
        elif change.resource.plural == "noderecords" and change.type == "ADDED":
            self._recorded[change.object["metadata"]["uid"]] = change.version

    def _note_node(self, name, change):
        if change.type == "DELETED":
            self.cordoned_by.pop(name, None)
            for key in [k for k in self.tainted_by if k[0] == name]:
                del self.tainted_by[key]
            self._deleted.add(name)
            return
        if change.type == "ADDED" and name in self._deleted:
            self.changed[name] = change.version
        node, old = change.object, change.old
        if not is_cordoned(node):
            self.cordoned_by.pop(name, None)
        elif not is_cordoned(old):
            self.cordoned_by[name] = change.actor
        for taint in taints(node) - taints(old):
            self.tainted_by[(name, *taint)] = change.actor
        for taint in taints(old) - taints(node):
            self.tainted_by.pop((name, *taint), None)

    def note_machine(self, machine):
        self.changed[machine.name] = self.store.version

    def is_unproven(self, node):
        """Changed, and since then no passing qualification of this node with the driver that its machine runs."""
        name, machine = node["metadata"]["name"], self.machines.get(node["metadata"]["name"])
        if name not in self.changed:
            return False
        records = self.store.list("noderecords") if self.store.resource("noderecords") else []
        return not any(
            self._recorded.get(record["metadata"]["uid"], 0) > self.changed[name]
            and proves(record.get("spec") or {}, node, machine)
            for record in records
        )

    def out(self):
        """Names of the GPU nodes that take no new work."""
        nodes = self.store.list("nodes")
        return sorted(n["metadata"]["name"] for n in nodes if self.has_gpus(n["metadata"]["name"]) and is_out(n))

    def has_gpus(self, name):
        machine = self.machines.get(name)
        return machine is not None and bool(machine.gpus)


def proves(spec, node, machine):
    """A NodeRecord's spec that qualifies the node as it is: same UID, same driver, passed, and each of its tests passed."""
    inputs = (spec.get("fingerprint") or {}).get("inputs") or {}
    tests = spec.get("tests") or []
    return (
        spec.get("kind") == "Qualification"
        and spec.get("verdict") == "pass"
        and bool(tests)
        and all(test.get("verdict") == "pass" for test in tests)
        and (spec.get("node") or {}).get("uid") == node["metadata"]["uid"]
        and machine is not None
        and (inputs.get("compute") or {}).get("driver") == machine.driver
    )
