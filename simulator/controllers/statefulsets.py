# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""StatefulSets: numbered pods, brought up and taken down in order, each with its claims."""

from __future__ import annotations

from simulator.controllers.owners import OwnerController, pod_from
from simulator.controllers.revisions import HASH, revisions_of, sync_revision, trim_revisions
from simulator.objects import condition, is_finished, is_terminating


def ordinal(name):
    """Number of a pod of a StatefulSet, -1 for another name."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdigit() else -1


class StatefulSets(OwnerController):
    """One pod at a time, and none while a lower one is not ready (podManagementPolicy Parallel: all at once)."""

    name, plural, kind = "statefulsets", "statefulsets", "StatefulSet"

    def reconcile(self, key):
        workload = self.living(key)
        if workload is None:
            return
        update = sync_revision(self.store, workload)
        pods = {p["metadata"]["name"]: p for p in self.store.pods_of(workload["metadata"]["uid"])}
        self._advance(key, workload, update, pods)
        self._status(key, workload, update)

    def _advance(self, key, workload, update, pods):
        """The next step: bring up, else take down, else replace one pod of an older revision."""
        spec = workload["spec"]
        parallel = spec.get("podManagementPolicy") == "Parallel"
        first = (spec.get("ordinals") or {}).get("start", 0)
        names = [f"{key[1]}-{first + i}" for i in range(spec["replicas"])]
        for name in names:
            pod = pods.get(name)
            if pod is None:
                self._create(key, workload, name, update)
            elif is_finished(pod) and not is_terminating(pod):
                self.store.delete("pods", name, key[0])
            elif condition(pod, "Ready") and not is_terminating(pod):
                continue
            if not parallel:
                return
        condemned = sorted(set(pods) - set(names), key=ordinal, reverse=True)
        for name in condemned:
            if not is_terminating(pods[name]):
                self.store.delete("pods", name, key[0])
            if not parallel:
                return
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for name in sorted(set(names) & set(pods), key=ordinal, reverse=True):
            if ordinal(name) - first < partition:
                return
            pod = pods[name]
            outdated = pod["metadata"]["labels"].get(HASH) != update["metadata"]["name"]
            if outdated and not is_terminating(pod):
                self.store.delete("pods", name, key[0])
                return
            if is_terminating(pod) or not condition(pod, "Ready"):
                return

    def _create(self, key, workload, name, update):
        revision = self._revision_for(workload, name, update)
        pod = pod_from(workload, revision["data"]["spec"]["template"], name=name)
        labels = pod["metadata"].setdefault("labels", {})
        labels[HASH] = revision["metadata"]["name"]
        labels["statefulset.kubernetes.io/pod-name"] = name
        labels["apps.kubernetes.io/pod-index"] = str(ordinal(name))
        pod["spec"].update(hostname=name, subdomain=workload["spec"].get("serviceName", ""))
        for claim in workload["spec"].get("volumeClaimTemplates") or []:
            kind = claim["metadata"]["name"]
            self._claim(key, claim, f"{kind}-{name}", workload)
            volume = {"name": kind, "persistentVolumeClaim": {"claimName": f"{kind}-{name}"}}
            pod["spec"].setdefault("volumes", []).append(volume)
        self.store.create("pods", pod, key[0])

    def _revision_for(self, workload, name, update):
        """Pods below the partition come back in the revision that the set is at."""
        spec = workload["spec"]
        partition = ((spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition", 0)
        if ordinal(name) - (spec.get("ordinals") or {}).get("start", 0) >= partition:
            return update
        current = (workload.get("status") or {}).get("currentRevision")
        return next((r for r in revisions_of(self.store, workload) if r["metadata"]["name"] == current), update)

    def _claim(self, key, template, name, workload):
        if self.store.get("persistentvolumeclaims", name, key[0]) is None:
            labels = (workload["spec"]["selector"] or {}).get("matchLabels") or {}
            body = {"metadata": {"name": name, "labels": labels}, "spec": template["spec"]}
            self.store.create("persistentvolumeclaims", body, key[0])
            bound = lambda o: o.setdefault("status", {}).update(phase="Bound")  # noqa: E731
            self.store.mutate("persistentvolumeclaims", name, bound, key[0], status=True)

    def _status(self, key, workload, update):
        pods = self.store.pods_of(workload["metadata"]["uid"])
        active = [p for p in pods if not is_terminating(p)]
        ready = sum(condition(p, "Ready") for p in active)
        newest = update["metadata"]["name"]
        updated = sum(p["metadata"]["labels"].get(HASH) == newest for p in active)
        before = (workload.get("status") or {}).get("currentRevision", newest)
        done = updated == ready == workload["spec"]["replicas"] == len(pods)
        current = newest if done else before
        on_current = sum(p["metadata"]["labels"].get(HASH) == current for p in active)

        def edit(obj):
            obj["status"].update(
                replicas=len(pods),
                readyReplicas=ready,
                availableReplicas=ready,
                currentReplicas=on_current,
                updatedReplicas=updated,
                currentRevision=current,
                updateRevision=newest,
                collisionCount=0,
                observedGeneration=obj["metadata"]["generation"],
            )

        self.status(key, edit)
        trim_revisions(self.store, workload, {current, newest})
