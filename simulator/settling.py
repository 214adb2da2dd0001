# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a cluster is at rest: nodes Ready, GPUs offered, every workload up."""

from __future__ import annotations

from simulator.gpu_operator import keys
from simulator.nodes.containers import PREFIX
from simulator.objects import condition, is_finished, key_of

NEVER_READY = PREFIX + "ready"


def missing(store, machines):
    """What is not there yet, a sentence each; nothing once the cluster is at rest."""
    found = [text for node in store.list("nodes") if (text := _node(store, node, machines))]
    for plural, is_up in UP.items():
        for obj in store.list(plural):
            if not _is_never_ready(obj["spec"]["template"]) and not is_up(obj["spec"], obj.get("status") or {}):
                found.append(f"{plural[:-1]} {'/'.join(key_of(obj))} is not up")
    for pod in store.list("pods"):
        if not is_finished(pod) and not condition(pod, "Ready") and not _is_never_ready(pod):
            found.append(f"pod {'/'.join(key_of(pod))} is {_state(pod)}")
    return found


def _node(store, node, machines):
    name, machine = node["metadata"]["name"], machines.get(node["metadata"]["name"])
    if not condition(node, "Ready"):
        return f"node {name} is not Ready"
    if machine is None or not machine.gpus:
        return None
    offered = int((node["status"].get("allocatable") or {}).get("nvidia.com/gpu", 0))
    if offered != len(machine.healthy()):
        return f"node {name} offers {offered} of {len(machine.healthy())} GPUs"
    state = (node["metadata"].get("labels") or {}).get(keys.STATE)
    if _upgrades_by_itself(store) and state != keys.DONE:
        return f"node {name} has {keys.STATE} {state or 'not set'}"
    return None


def _upgrades_by_itself(store):
    policies = [policy["spec"]["driver"].get("upgradePolicy") or {} for policy in store.list("clusterpolicies")]
    return any(policy.get("autoUpgrade") for policy in policies)


def _is_never_ready(obj):
    return (obj["metadata"].get("annotations") or {}).get(NEVER_READY) == "false"


def _state(pod):
    for entry in (pod.get("status") or {}).get("conditions") or []:
        if entry["type"] == "PodScheduled" and entry["status"] == "False":
            return f"not scheduled: {entry.get('message', 'no node fits')}"
    return f"{(pod.get('status') or {}).get('phase', 'Pending')} and not Ready"


def _has_replicas(spec, status):
    return status.get("readyReplicas", 0) == spec["replicas"] == status.get("replicas", 0)


def _has_daemons(_spec, status):
    return bool(status) and status.get("numberReady", 0) == status.get("desiredNumberScheduled", 0)


def _has_started(spec, status):
    return bool(spec.get("suspend") or status.get("ready") or status.get("succeeded"))


UP = {
    "deployments": _has_replicas,
    "statefulsets": _has_replicas,
    "daemonsets": _has_daemons,
    "jobs": _has_started,
}
