# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DaemonSets: one pod on each node whose labels fit and whose taints the template tolerates.

A NoSchedule taint that is not tolerated takes the node out of desiredNumberScheduled while the pod on it keeps running:
this is what freezes the GPU operator's rollout (measured).
"""

from __future__ import annotations

from simulator.controllers.owners import OwnerController, pod_from, whole_or_percent
from simulator.controllers.revisions import HASH, sync_revision, trim_revisions
from simulator.objects import condition, is_finished, is_terminating, key_of, tolerates
from simulator.scheduling import fits_selectors

# AddOrUpdateDaemonPodTolerations of kube-controller-manager.
AUTOMATIC = [
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
]


def automatic_tolerations(host_network=False):
    listed = [*AUTOMATIC, ("network-unavailable", "NoSchedule")] if host_network else AUTOMATIC
    return [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in listed]


def should_run(template_spec, node):
    """(may be placed there, may go on running there)."""
    if not fits_selectors(template_spec, node):
        return False, False
    automatic = automatic_tolerations(template_spec.get("hostNetwork"))
    tolerations = [*(template_spec.get("tolerations") or []), *automatic]
    against = [t for t in (node.get("spec") or {}).get("taints") or [] if not tolerates(tolerations, t)]
    place = not any(t["effect"] in ("NoSchedule", "NoExecute") for t in against)
    return place, not any(t["effect"] == "NoExecute" for t in against)


def to_replace(pods_by_node, revision, max_unavailable):
    """Pods that a rolling update deletes now (without surge; kube-controller-manager, daemon/update.go)."""
    unavailable, broken, candidates = 0, [], []
    for pods in pods_by_node.values():
        living = [p for p in pods if not is_terminating(p)]
        if len(living) != 1:
            unavailable += 1
            continue
        (pod,) = living
        ready, outdated = condition(pod, "Ready"), pod["metadata"]["labels"].get(HASH) != revision
        unavailable += not ready
        if outdated:
            (candidates if ready else broken).append(pod)
    return broken + candidates[: max(0, max_unavailable - unavailable)]


class DaemonSets(OwnerController):
    name, plural, kind = "daemonsets", "daemonsets", "DaemonSet"

    def __init__(self, store, clock):
        super().__init__(store, clock)
        self._fits = {}
        self._failures = {}

    def seen(self, change):
        super().seen(change)
        if change.resource.plural == "nodes":
            old, new = change.old or {}, change.object
            if change.type != "MODIFIED" or _placement(old) != _placement(new):
                for daemonset in self.store.list("daemonsets"):
                    self.mark(key_of(daemonset))
        elif change.resource.plural == "daemonsets" and change.type == "DELETED":
            uid = change.object["metadata"]["uid"]
            self._fits.pop(uid, None)
            self._failures.pop(uid, None)

    def reconcile(self, key):
        daemonset = self.living(key)
        if daemonset is None:
            return
        revision = sync_revision(self.store, daemonset)["metadata"]["labels"][HASH]
        nodes = {node["metadata"]["name"]: node for node in self.store.list("nodes")}
        self._manage(key, daemonset, nodes, revision)
        pods = self._pods(daemonset)
        strategy = daemonset["spec"]["updateStrategy"]
        if strategy["type"] == "RollingUpdate":
            allowed = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
            desired = sum(self._should_run(daemonset, node)[0] for node in nodes.values())
            for pod in to_replace(pods, revision, max(1, whole_or_percent(allowed, desired, up=True))):
                self.store.delete("pods", pod["metadata"]["name"], key[0])
        self._status(key, daemonset, nodes, revision)
        used = {p["metadata"]["labels"].get(HASH) for found in pods.values() for p in found} | {revision}
        trim_revisions(self.store, daemonset, {f"{key[1]}-{digest}" for digest in used})

    def _pods(self, daemonset):
        """{node: pods}, oldest first, without those that have ended and are being deleted."""
        found = {}
        for pod in self.store.pods_of(daemonset["metadata"]["uid"]):
            if is_finished(pod) and is_terminating(pod):
                continue
            found.setdefault(pod["spec"].get("nodeName"), []).append(pod)
        return found

    def _should_run(self, daemonset, node):
        """should_run, kept for as long as neither the template nor the node object is written."""
        name, spec = node["metadata"]["name"], daemonset["spec"]["template"]["spec"]
        kept = self._fits.setdefault(daemonset["metadata"]["uid"], {})
        known = kept.get(name)
        if known is None or known[0] is not node or known[1] is not daemonset and known[1]["spec"] != daemonset["spec"]:
            known = kept[name] = (node, daemonset, should_run(spec, node))
        return known[2]

    def _manage(self, key, daemonset, nodes, revision):
        """One pod where it should run, none where it must not; failed ones make room for another."""
        pods = self._pods(daemonset)
        for name, node in nodes.items():
            place, keep = self._should_run(daemonset, node)
            here = pods.get(name, ())
            if place and not here:
                self._create(key, daemonset, name, revision)
            for pod in here:
                failed = keep and pod["status"].get("phase") == "Failed"
                if is_terminating(pod) or failed and not self._may_retry(key, daemonset, name):
                    continue
                if is_finished(pod) or not keep:
                    self.store.delete("pods", pod["metadata"]["name"], key[0])
        for name in set(pods) - set(nodes):
            for pod in pods[name]:
                self.store.delete("pods", pod["metadata"]["name"], key[0], {"gracePeriodSeconds": 0})

    def _may_retry(self, key, daemonset, node):
        """Failed pods are replaced after 1, 2, 4 … s, at most 15 minutes."""
        kept = self._failures.setdefault(daemonset["metadata"]["uid"], {})
        count, due = kept.get(node, (0, 0))
        now = self.clock.monotonic()
        if now < due:
            self.mark_later(due - now, key)
            return False
        kept[node] = (count + 1, now + min(900, 2**count))
        return True

    def _create(self, key, daemonset, node, revision):
        pod = pod_from(daemonset, generateName=f"{key[1]}-")
        pod["metadata"].setdefault("labels", {})[HASH] = revision
        spec = pod["spec"]
        spec["nodeName"] = node  # the scheduler's part: the affinity below leaves it no other choice
        spec["tolerations"] = [*(spec.get("tolerations") or []), *automatic_tolerations(spec.get("hostNetwork"))]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
        self.store.create("pods", pod, key[0])

    def _status(self, key, daemonset, nodes, revision):
        """As updateDaemonSetStatus counts: nodes, and of each the oldest pod."""
        pods = self._pods(daemonset)
        desired = current = misscheduled = ready = updated = 0
        for name, node in nodes.items():
            here = pods.get(name)
            if not self._should_run(daemonset, node)[0]:
                misscheduled += bool(here)
                continue
            desired += 1
            if here:
                current += 1
                ready += condition(here[0], "Ready")
                updated += here[0]["metadata"]["labels"].get(HASH) == revision

        def edit(obj):
            status = obj["status"]
            status.update(
                desiredNumberScheduled=desired,
                currentNumberScheduled=current,
                numberMisscheduled=misscheduled,
                numberReady=ready,
                numberAvailable=ready,
                numberUnavailable=desired - ready,
                updatedNumberScheduled=updated,
                observedGeneration=obj["metadata"]["generation"],
            )
            for field in ("numberAvailable", "numberUnavailable", "updatedNumberScheduled"):
                if not status[field]:
                    del status[field]

        self.status(key, edit)


def _placement(node):
    spec = node.get("spec") or {}
    taints = [(t["key"], t.get("value"), t["effect"]) for t in spec.get("taints") or []]
    return taints, spec.get("unschedulable"), (node.get("metadata") or {}).get("labels")
