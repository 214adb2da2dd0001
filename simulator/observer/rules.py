# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must never happen, one function each: (ledger, change) or (ledger, machine, entry) to a violation or None."""

from __future__ import annotations

from simulator.objects import condition, is_terminating, key_of
from simulator.observer.shapes import (
    OPERATOR,
    PRODUCT,
    family,
    holders,
    is_cordoned,
    is_held,
    is_out,
    is_schedulable,
    is_workload,
    taints,
    uses_gpus,
)

DISRUPTIVE = ("driver", "mig", "firmware", "reset", "reboot")


def _violation(rule, message, **where):
    return {"rule": rule, "message": message, **where}


def _names(pods):
    return ", ".join(sorted("/".join(key_of(pod)) for pod in pods))


# -- pods
def pdb_broken(ledger, change):
    """Somebody ended a healthy pod, and a budget over it is left with fewer healthy pods than it wants.

    Deaths of nodes and what controllers do of their own accord are no disruption in the sense of a budget.
    """
    pod, old = change.object, change.old
    ended = is_terminating(pod) or change.type == "DELETED"
    if not ended or old is None or is_terminating(old) or not condition(old, "Ready"):
        return None
    if change.actor.startswith(("controller/", "kubelet/")):
        return None
    namespace, name = key_of(pod)
    for pdb in ledger.store.budgets_of(namespace, pod):
        wanted = (pdb.get("status") or {}).get("desiredHealthy", 0)
        covered = [
            p
            for p in ledger.store.list("pods", namespace)
            if any(b is pdb for b in ledger.store.budgets_of(namespace, p))
        ]
        healthy = sum(condition(p, "Ready") and not is_terminating(p) for p in covered)
        if healthy < wanted:
            budget = f"{namespace}/{pdb['metadata']['name']}"
            text = f"{name} was ended: budget {budget} wants {wanted} healthy pods and has {healthy}"
            return _violation("pdb-broken", text, pdb=budget, pod=f"{namespace}/{name}")
    return None


def started_where_it_must_not(ledger, change):
    """A GPU pod came onto a node that is held, or whose last change nobody has proven."""
    pod, old = change.object, change.old
    name = pod["spec"].get("nodeName")
    if change.type == "DELETED" or not name or (old is not None and old["spec"].get("nodeName")) or not uses_gpus(pod):
        return None
    node = ledger.store.get("nodes", name)
    if node is None or not (is_held(node) or ledger.is_unproven(node)):
        return None
    where, why = "/".join(key_of(pod)), "held" if is_held(node) else "unproven after a change"
    return _violation("started-on-held", f"{where} was started on {name}, which is {why}", node=name, pod=where)


# -- nodes
def unproven_in_service(ledger, change):
    """A node takes work again after a change, without a passing record for the state it is in."""
    node, old = change.object, change.old
    name = node["metadata"]["name"]
    if change.type == "DELETED" or old is None or is_schedulable(old) or not is_schedulable(node):
        return None
    if not ledger.is_unproven(node):
        return None
    text = f"{name} may be scheduled to again after a change, without a passing record for its state"
    return _violation("unproven-in-service", text, node=name)


def deleted_with_pods(ledger, change):
    name = change.object["metadata"]["name"]
    pods = [p for p in ledger.store.pods_on(name) if is_workload(p)] if change.type == "DELETED" else []
    if not pods:
        return None
    return _violation("deleted-with-pods", f"{name} was deleted while {_names(pods)} was on it", node=name)


def more_out_than_allowed(ledger, change):
    """The product took a node out beyond the budget; one that was out already, or is visibly broken, may be taken."""
    node, old, name = change.object, change.old, change.object["metadata"]["name"]
    taken = old is not None and change.type != "DELETED" and set(holders(node)) - set(holders(old))
    if not taken or family(change.actor) != PRODUCT or is_out(old) or not ledger.has_gpus(name):
        return None
    if not all(gpu.healthy for gpu in ledger.machines[name].gpus):
        return None
    out = ledger.out()
    if len(out) <= ledger.max_unavailable:
        return None
    text = f"{len(out)} nodes are out ({', '.join(out)}), {ledger.max_unavailable} may be"
    return _violation("budget-of-nodes", text, node=name)


def foreign_cordon(ledger, change):
    """The product or the GPU operator took off a cordon that is not its own."""
    name, who = change.object["metadata"]["name"], family(change.actor)
    if change.type == "DELETED" or not is_cordoned(change.old) or is_cordoned(change.object):
        return None
    by = ledger.cordoned_by.get(name, "?")
    if who not in (PRODUCT, OPERATOR) or who == family(by):
        return None
    return _violation("foreign-cordon", f"the cordon that {by} put on {name} was taken off", node=name)


def foreign_taint(ledger, change):
    """The product or the GPU operator took off a taint that is not its own."""
    name, who = change.object["metadata"]["name"], family(change.actor)
    if change.type == "DELETED" or who not in (PRODUCT, OPERATOR):
        return None
    for key, effect in sorted(taints(change.old) - taints(change.object)):
        by = ledger.tainted_by.get((name, key, effect), "?")
        if family(by) != who:
            text = f"the taint {key}:{effect} that {by} put on {name} was taken off"
            return _violation("foreign-taint", text, node=name)
    return None


# -- machines
def changed_under_load(ledger, machine, entry):
    """Driver, MIG layout or firmware changed, a reset or a reboot, while a workload used the GPUs."""
    pods = [p for p in ledger.store.pods_on(machine.name) if uses_gpus(p) and p["status"].get("phase") == "Running"]
    if entry["kind"] not in DISRUPTIVE or not pods:
        return None
    text = f"{entry['kind']} of {machine.name} changed while {_names(pods)} ran there"
    return _violation("change-under-load", text, node=machine.name)


def changed_in_service(ledger, machine, entry):
    """A node that takes work was changed under it; while the driver is out no work can come, so loading counts."""
    node = ledger.store.get("nodes", machine.name)
    unloading = entry["kind"] == "driver" and entry.get("to") is None
    if entry["kind"] not in DISRUPTIVE or unloading or node is None or not is_schedulable(node):
        return None
    text = f"{entry['kind']} of {machine.name} changed while the node may be scheduled to"
    return _violation("unproven-in-service", text, node=machine.name)


def wiped_while_member(ledger, machine, entry):
    if entry["kind"] != "wipe" or ledger.store.get("nodes", machine.name) is None:
        return None
    text = f"the disks of {machine.name} were wiped while it is a node"
    return _violation("wiped-while-member", text, node=machine.name)


OF_CHANGES = {
    "pods": (pdb_broken, started_where_it_must_not),
    "nodes": (
        unproven_in_service,
        deleted_with_pods,
        more_out_than_allowed,
        foreign_cordon,
        foreign_taint,
    ),
}
OF_MACHINES = (changed_under_load, changed_in_service, wiped_while_member)
