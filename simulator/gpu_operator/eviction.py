# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the upgrade controller empties a node: k8s-operator-libs pkg/upgrade pod_manager.go and drain_manager.go.

limits is podDeletion or drain of the upgrade policy: force, deleteEmptyDir, timeoutSeconds (0: no limit), podSelector.
"""

from __future__ import annotations

from simulator.errors import ApiError
from simulator.gpu_operator import keys
from simulator.nodes.kubelet import is_workload
from simulator.objects import controller_of, gpu_request, is_finished, is_terminating
from simulator.selectors import parse_labels

RETRY_S = 5


def targets(pods, how, limits):
    """The pods of a node that must go: with "evict" those that ask for GPUs, with "drain" all that the policy selects.

    A pod that uses a GPU without asking for one is not seen (NVIDIA/gpu-operator#2570), nor are pods of DaemonSets.
    """
    pods = [p for p in pods if is_workload(p) and not is_finished(p)]
    if how == "evict":
        return [p for p in pods if gpu_request(p)]
    match = parse_labels(limits.get("podSelector") or "")
    return [p for p in pods if match(p) and (p["metadata"].get("labels") or {}).get(keys.DRAIN_SKIP) != "true"]


def may_delete(pod, limits):
    """kubectl's drain filters: a pod of no controller needs force, one with emptyDir needs deleteEmptyDir."""
    local = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or [])
    return bool(limits.get("force") or controller_of(pod)) and bool(limits.get("deleteEmptyDir") or not local)


async def evict_all(store, clock, node, pods, limits):
    """ "" when the pods are gone from the node, else what went wrong. A refused eviction is tried again after 5 s."""
    seconds = limits.get("timeoutSeconds") or 0
    uids = {p["metadata"]["uid"] for p in pods}
    waited = 0
    while left := [p for p in store.pods_on(node) if p["metadata"]["uid"] in uids]:
        staying = [p for p in left if not is_terminating(p)]
        if seconds and waited >= seconds:
            name = _name((staying or left)[0])
            doing = f"evicting {name}" if staying else f"waiting for {name} to terminate"
            return f"error when {doing}: global timeout reached: {seconds}s"
        if waited % RETRY_S == 0:
            for pod in staying:
                meta = pod["metadata"]
                try:
                    store.evict(meta["namespace"], meta["name"], {"metadata": {"name": meta["name"]}})
                except ApiError as error:
                    if error.code not in (404, 429):
                        return f"error when evicting {_name(pod)}: {error}"
        await clock.sleep(1)
        waited += 1
    return ""


def _name(pod):
    return f'pods/"{pod["metadata"]["name"]}" -n "{pod["metadata"]["namespace"]}"'
