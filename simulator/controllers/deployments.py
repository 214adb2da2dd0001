# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deployments: one ReplicaSet per template, rolled over within maxSurge and maxUnavailable."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.controllers.owners import OwnerController, template_hash, whole_or_percent
from simulator.objects import clone, is_terminating, owner_reference, set_condition

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


@dataclass(frozen=True)
class Size:
    """Of a ReplicaSet: pods asked for, pods available."""

    name: str
    replicas: int
    available: int


def fences(spec):
    """(maxSurge, maxUnavailable) as numbers; both 0 would never move, so the server takes one unavailable then."""
    rolling, replicas = spec["strategy"].get("rollingUpdate") or {}, spec["replicas"]
    if spec["strategy"].get("type") == "Recreate":
        return 0, 0
    surge = whole_or_percent(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = whole_or_percent(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    return surge, min(replicas, unavailable if surge or unavailable else 1)


def roll(wanted, surge, unavailable, new, old):
    """{name: replicas} of the next step of a rolling update (kube-controller-manager, deployment/rolling.go).

    new: Size of the current template's ReplicaSet. old: Sizes of the others, oldest first.
    """
    if new.replicas > wanted:
        return {new.name: wanted}
    total = new.replicas + sum(s.replicas for s in old)
    if new.replicas < wanted and total < wanted + surge:
        return {new.name: min(wanted, new.replicas + wanted + surge - total)}
    minimum = wanted - unavailable
    down = total - minimum - (new.replicas - new.available)
    if down <= 0 or not any(s.replicas for s in old):
        return {}
    left = {s.name: s.replicas for s in old}
    removed = 0
    for size in old:  # the ones that are not available go first, they cost nothing
        count = min(down - removed, size.replicas - size.available)
        left[size.name] -= max(0, count)
        removed += max(0, count)
    spare = new.available + sum(min(s.available, left[s.name]) for s in old) - minimum
    for size in old:
        count = max(0, min(left[size.name], spare))
        left[size.name] -= count
        spare -= count
    return {s.name: left[s.name] for s in old if left[s.name] != s.replicas}


class Deployments(OwnerController):
    name, plural, kind = "deployments", "deployments", "Deployment"

    def reconcile(self, key):
        deployment = self.living(key)
        if deployment is None:
            return
        name = f"{key[1]}-{template_hash(deployment['spec']['template'])}"
        sets = self._sets(deployment)
        if name not in sets and not deployment["spec"].get("paused"):
            self._create(key, deployment, name, sets)
            sets = self._sets(deployment)
        new, old = sets.get(name), [s for n, s in sets.items() if n != name]
        for target, replicas in self._next(deployment, new, old).items():
            self.store.mutate("replicasets", target, lambda o, n=replicas: o["spec"].update(replicas=n), key[0])
        self._status(key, deployment, name)
        self._forget_old(key, deployment, name)

    def _sets(self, deployment):
        """{name: ReplicaSet}, oldest revision first."""
        owned = [
            o
            for plural, o in self.store.owned_by(deployment["metadata"]["uid"])
            if plural == "replicasets" and not is_terminating(o)
        ]
        return {o["metadata"]["name"]: o for o in sorted(owned, key=_revision)}

    def _next(self, deployment, new, old):
        spec, wanted = deployment["spec"], deployment["spec"]["replicas"]
        if new is None or spec.get("paused"):
            active = [s for s in [*old, *([new] if new else [])] if s["spec"]["replicas"]]
            return {active[0]["metadata"]["name"]: wanted} if len(active) == 1 else {}
        if spec["strategy"].get("type") == "Recreate":
            if any(s["spec"]["replicas"] for s in old):
                return {s["metadata"]["name"]: 0 for s in old}
            if any(self.store.pods_of(s["metadata"]["uid"]) for s in old):
                return {}
            return {new["metadata"]["name"]: wanted}
        surge, unavailable = fences(spec)
        return roll(wanted, surge, unavailable, _size(new), [_size(s) for s in old])

    def _create(self, key, deployment, name, sets):
        digest = name.rsplit("-", 1)[1]
        template = clone(deployment["spec"]["template"])
        template.setdefault("metadata", {}).setdefault("labels", {})[HASH] = digest
        selector = clone(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {})[HASH] = digest
        newest = max((_revision(s) for s in sets.values()), default=0)
        metadata = {
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: str(newest + 1)},
            "ownerReferences": [owner_reference(deployment)],
        }
        spec = {"replicas": 0, "selector": selector, "template": template}
        self.store.create("replicasets", {"metadata": metadata, "spec": spec}, key[0])

    def _status(self, key, deployment, name):
        sets = self._sets(deployment)
        new, wanted, stamp = sets.get(name), deployment["spec"]["replicas"], self.clock.stamp()
        if new is not None:
            self._number(key, sets, new)
        total, ready = (
            sum((s.get("status") or {}).get(field, 0) for s in sets.values()) for field in ("replicas", "readyReplicas")
        )
        updated = ((new or {}).get("status") or {}).get("replicas", 0)
        minimum = wanted - fences(deployment["spec"])[1]
        complete = updated == total == ready == wanted

        def edit(obj):
            status = obj["status"]
            status.update(
                replicas=total,
                readyReplicas=ready,
                availableReplicas=ready,
                updatedReplicas=updated,
                observedGeneration=obj["metadata"]["generation"],
            )
            status.pop("unavailableReplicas", None)
            if max(total, wanted) > ready:
                status["unavailableReplicas"] = max(total, wanted) - ready
            enough = ready >= minimum
            words = ("MinimumReplicasAvailable", "Deployment has minimum availability.")
            lacking = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
            set_condition(obj, "Available", "True" if enough else "False", stamp, *(words if enough else lacking))
            if complete:
                done = ("NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
                set_condition(obj, "Progressing", "True", stamp, *done)
            elif not any(c["type"] == "Progressing" for c in status["conditions"]) or updated < wanted:
                set_condition(
                    obj, "Progressing", "True", stamp, "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
                )

        self.status(key, edit)

    def _number(self, key, sets, new):
        """The ReplicaSet in use carries the highest revision, and the Deployment the same."""
        others = max((_revision(s) for s in sets.values() if s is not new), default=0)
        revision = str(max(_revision(new), others + 1))
        annotate = lambda o: o["metadata"].setdefault("annotations", {}).update({REVISION: revision})  # noqa: E731
        self.store.mutate("replicasets", new["metadata"]["name"], annotate, key[0])
        self.store.mutate("deployments", key[1], annotate, key[0])

    def _forget_old(self, key, deployment, name):
        empty = [
            n
            for n, s in self._sets(deployment).items()
            if n != name and not s["spec"]["replicas"] and not (s.get("status") or {}).get("replicas")
        ]
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        for spare in empty[: max(0, len(empty) - limit)]:
            self.store.delete("replicasets", spare, key[0])


def _revision(replicaset):
    return int((replicaset["metadata"].get("annotations") or {}).get(REVISION, 0))


def _size(replicaset):
    status = replicaset.get("status") or {}
    return Size(replicaset["metadata"]["name"], replicaset["spec"]["replicas"], status.get("availableReplicas", 0))
