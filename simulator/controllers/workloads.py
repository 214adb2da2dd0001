# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ReplicaSets, Deployments and StatefulSets: as many pods as asked for."""

from __future__ import annotations

import hashlib

import orjson

from simulator.controllers.base import Controller
from simulator.objects import (
    clone,
    condition,
    controller_of,
    is_finished,
    is_terminating,
    key_of,
    owner_reference,
    set_condition,
)


def pod_from(workload, **metadata):
    pod = clone(workload["spec"]["template"])
    pod.setdefault("metadata", {}).update(ownerReferences=[owner_reference(workload)], **metadata)
    return pod


class OwnerController(Controller):
    """Marks the workload of a kind when it, or something it owns, changes."""

    plural = ""
    kind = ""

    def seen(self, change):
        obj = change.object
        if change.resource.plural == self.plural:
            self.mark(key_of(obj))
        ref = controller_of(obj)
        if ref and ref["kind"] == self.kind:
            self.mark((obj["metadata"].get("namespace", ""), ref["name"]))

    def living(self, key):
        """The workload, unless it is gone or going."""
        obj = self.store.get(self.plural, key[1], key[0])
        return None if obj is None or is_terminating(obj) else obj

    def status(self, key, edit):
        self.store.mutate(self.plural, key[1], edit, key[0], status=True)


class ReplicaSets(OwnerController):
    name, plural, kind = "replicasets", "replicasets", "ReplicaSet"

    def reconcile(self, key):
        replicaset = self.living(key)
        if replicaset is None:
            return
        pods = [
            p for p in self.store.pods_of(replicaset["metadata"]["uid"]) if not is_terminating(p) and not is_finished(p)
        ]
        wanted = replicaset["spec"]["replicas"]
        for _missing in range(wanted - len(pods)):
            self.store.create("pods", pod_from(replicaset, generateName=f"{key[1]}-"), key[0])
        # The ones that are not ready go first, as in the real controller.
        for pod in sorted(pods, key=lambda p: condition(p, "Ready"))[: max(0, len(pods) - wanted)]:
            self.store.delete("pods", pod["metadata"]["name"], key[0])
        ready = sum(condition(p, "Ready") for p in pods)

        def edit(obj):
            obj["status"].update(
                replicas=min(len(pods), wanted),
                fullyLabeledReplicas=min(len(pods), wanted),
                readyReplicas=ready,
                availableReplicas=ready,
                observedGeneration=obj["metadata"]["generation"],
            )

        self.status(key, edit)


class Deployments(OwnerController):
    name, plural, kind = "deployments", "deployments", "Deployment"

    def reconcile(self, key):
        deployment = self.living(key)
        if deployment is None:
            return
        digest = hashlib.sha256(orjson.dumps(deployment["spec"]["template"], option=orjson.OPT_SORT_KEYS)).hexdigest()[
            :10
        ]
        name = f"{key[1]}-{digest}"
        for plural, owned in self.store.owned_by(deployment["metadata"]["uid"]):
            if plural == "replicasets" and owned["metadata"]["name"] != name:
                self.store.mutate(plural, owned["metadata"]["name"], lambda o: o["spec"].update(replicas=0), key[0])
        replicas = deployment["spec"]["replicas"]
        if self.store.get("replicasets", name, key[0]) is None:
            self._create(key, deployment, name, digest)
        else:
            self.store.mutate("replicasets", name, lambda o: o["spec"].update(replicas=replicas), key[0])
        found = self.store.get("replicasets", name, key[0]).get("status") or {}
        ready, stamp = found.get("readyReplicas", 0), self.clock.stamp()

        def edit(obj):
            obj["status"].update(
                replicas=found.get("replicas", 0),
                readyReplicas=ready,
                availableReplicas=ready,
                updatedReplicas=found.get("replicas", 0),
                observedGeneration=obj["metadata"]["generation"],
            )
            enough = ready >= replicas
            reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
            set_condition(obj, "Available", "True" if enough else "False", stamp, reason)
            set_condition(
                obj, "Progressing", "True", stamp, "NewReplicaSetAvailable" if enough else "ReplicaSetUpdated"
            )

        self.status(key, edit)

    def _create(self, key, deployment, name, digest):
        template = clone(deployment["spec"]["template"])
        template.setdefault("metadata", {}).setdefault("labels", {})["pod-template-hash"] = digest
        selector = clone(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {})["pod-template-hash"] = digest
        metadata = {
            "name": name,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner_reference(deployment)],
        }
        spec = {"replicas": deployment["spec"]["replicas"], "selector": selector, "template": template}
        self.store.create("replicasets", {"metadata": metadata, "spec": spec}, key[0])


class StatefulSets(OwnerController):
    """Ordered: one new pod at a time, and none while its predecessor is not ready (unless Parallel)."""

    name, plural, kind = "statefulsets", "statefulsets", "StatefulSet"

    def reconcile(self, key):
        workload = self.living(key)
        if workload is None:
            return
        pods = {p["metadata"]["name"]: p for p in self.store.pods_of(workload["metadata"]["uid"])}
        for i in range(workload["spec"]["replicas"]):
            name = f"{key[1]}-{i}"
            if name not in pods:
                self.store.create("pods", pod_from(workload, name=name), key[0])
                break
            if not condition(pods[name], "Ready") and workload["spec"].get("podManagementPolicy") != "Parallel":
                break
        ready = sum(condition(p, "Ready") for p in pods.values())

        def edit(obj):
            obj["status"].update(
                replicas=len(pods),
                readyReplicas=ready,
                availableReplicas=ready,
                currentReplicas=len(pods),
                updatedReplicas=len(pods),
                observedGeneration=obj["metadata"]["generation"],
            )

        self.status(key, edit)
