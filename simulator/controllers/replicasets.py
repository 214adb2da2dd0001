# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ReplicaSets: as many pods as asked for."""

from __future__ import annotations

import collections

from simulator.controllers.owners import OwnerController, is_active, pod_from
from simulator.objects import condition

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def first_to_go(pods):
    """Active pods in the order in which a ReplicaSet gives them up (ActivePodsWithRanks of kube-controller-manager):
    unscheduled, Pending, not ready, cheap, crowded on one node, restarted often, young.
    """
    crowd = collections.Counter(p["spec"].get("nodeName") for p in pods if condition(p, "Ready"))

    def rank(pod):
        spec, status, metadata = pod["spec"], pod["status"], pod["metadata"]
        return (
            bool(spec.get("nodeName")),
            PHASES.get(status.get("phase"), 1),
            condition(pod, "Ready"),
            int((metadata.get("annotations") or {}).get(DELETION_COST, 0)),
            -crowd[spec.get("nodeName")],
            -max((c.get("restartCount", 0) for c in status.get("containerStatuses") or []), default=0),
        )

    young_first = sorted(pods, key=lambda p: p["metadata"]["creationTimestamp"], reverse=True)
    return sorted(young_first, key=rank)


class ReplicaSets(OwnerController):
    name, plural, kind = "replicasets", "replicasets", "ReplicaSet"

    def reconcile(self, key):
        replicaset = self.living(key)
        if replicaset is None:
            return
        pods = [p for p in self.store.pods_of(replicaset["metadata"]["uid"]) if is_active(p)]
        wanted = replicaset["spec"]["replicas"]
        for _missing in range(wanted - len(pods)):
            self.store.create("pods", pod_from(replicaset, generateName=f"{key[1]}-"), key[0])
        if len(pods) > wanted:
            for pod in first_to_go(pods)[: len(pods) - wanted]:
                self.store.delete("pods", pod["metadata"]["name"], key[0])
        pods = [p for p in self.store.pods_of(replicaset["metadata"]["uid"]) if is_active(p)]
        ready = sum(condition(p, "Ready") for p in pods)
        counts = {
            "replicas": len(pods),
            "fullyLabeledReplicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
        }

        def edit(obj):
            obj["status"].update(counts, observedGeneration=obj["metadata"]["generation"])

        self.status(key, edit)
