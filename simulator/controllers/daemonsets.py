# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DaemonSets: one pod on each node whose labels fit and whose taints the template tolerates.

A NoSchedule taint that is not tolerated takes the node out of desiredNumberScheduled while the pod on it keeps running:
this is what freezes the GPU operator's rollout (measured).
"""

from __future__ import annotations

import hashlib

import orjson

from simulator.controllers.workloads import OwnerController, pod_from
from simulator.objects import condition, is_finished, is_terminating, key_of, owner_reference, tolerates
from simulator.scheduling import fits_selectors

AUTOMATIC = [
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
]
HASH = "controller-revision-hash"


def automatic_tolerations():
    return [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in AUTOMATIC]


def should_run(template_spec, node):
    """(may be placed there, may go on running there)."""
    if not fits_selectors(template_spec, node):
        return False, False
    tolerations = [*(template_spec.get("tolerations") or []), *automatic_tolerations()]
    against = [t for t in (node.get("spec") or {}).get("taints") or [] if not tolerates(tolerations, t)]
    place = not any(t["effect"] in ("NoSchedule", "NoExecute") for t in against)
    return place, not any(t["effect"] == "NoExecute" for t in against)


class DaemonSets(OwnerController):
    name, plural, kind = "daemonsets", "daemonsets", "DaemonSet"

    def seen(self, change):
        super().seen(change)
        if change.resource.plural == "nodes":
            old, new = change.old or {}, change.object
            if change.type != "MODIFIED" or _placement(old) != _placement(new):
                for daemonset in self.store.list("daemonsets"):
                    self.mark(key_of(daemonset))

    def reconcile(self, key):
        daemonset = self.living(key)
        if daemonset is None:
            return
        revision = self._revision(key, daemonset)
        spec = daemonset["spec"]["template"]["spec"]
        pods = [p for p in self.store.pods_of(daemonset["metadata"]["uid"]) if not is_finished(p)]
        on_node = {p["spec"].get("nodeName"): p for p in sorted(pods, key=is_terminating, reverse=True)}
        desired = misscheduled = 0
        for node in self.store.list("nodes"):
            name = node["metadata"]["name"]
            place, keep = should_run(spec, node)
            desired += place
            pod = on_node.get(name)
            if place and pod is None:
                self._create(key, daemonset, name, revision)
            elif pod is not None and not is_terminating(pod):
                misscheduled += not place
                outdated = pod["metadata"]["labels"].get(HASH) != revision
                rolling = daemonset["spec"]["updateStrategy"]["type"] == "RollingUpdate"
                if not keep or (outdated and rolling and condition(pod, "Ready")):
                    self.store.delete("pods", pod["metadata"]["name"], key[0])
        known = {node["metadata"]["name"] for node in self.store.list("nodes")}
        for pod in pods:
            if pod["spec"].get("nodeName") not in known:
                self.store.delete("pods", pod["metadata"]["name"], key[0], {"gracePeriodSeconds": 0})
        self._status(key, daemonset, revision, desired, misscheduled)

    def _create(self, key, daemonset, node, revision):
        pod = pod_from(daemonset, generateName=f"{key[1]}-")
        pod["metadata"].setdefault("labels", {})[HASH] = revision
        pod["spec"]["nodeName"] = node
        pod["spec"]["tolerations"] = [*(pod["spec"].get("tolerations") or []), *automatic_tolerations()]
        self.store.create("pods", pod, key[0])

    def _revision(self, key, daemonset):
        template = daemonset["spec"]["template"]
        digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]
        name = f"{key[1]}-{digest}"
        owned = [
            o for plural, o in self.store.owned_by(daemonset["metadata"]["uid"]) if plural == "controllerrevisions"
        ]
        newest = max((o["revision"] for o in owned), default=0)
        found = next((o for o in owned if o["metadata"]["name"] == name), None)
        if found is None:
            labels = {**(template["metadata"].get("labels") or {}), HASH: digest}
            metadata = {"name": name, "labels": labels, "ownerReferences": [owner_reference(daemonset)]}
            body = {"metadata": metadata, "revision": newest + 1, "data": {"spec": {"template": template}}}
            self.store.create("controllerrevisions", body, key[0])
        elif found["revision"] != newest:
            self.store.mutate("controllerrevisions", name, lambda o: o.update(revision=newest + 1), key[0])
        return digest

    def _status(self, key, daemonset, revision, desired, misscheduled):
        pods = [p for p in self.store.pods_of(daemonset["metadata"]["uid"]) if not is_finished(p)]
        ready = sum(condition(p, "Ready") for p in pods)
        updated = sum(p["metadata"]["labels"].get(HASH) == revision for p in pods)

        def edit(obj):
            obj["status"].update(
                desiredNumberScheduled=desired,
                currentNumberScheduled=len(pods) - misscheduled,
                numberMisscheduled=misscheduled,
                numberReady=ready,
                numberAvailable=ready,
                numberUnavailable=max(0, desired - ready),
                updatedNumberScheduled=updated,
                observedGeneration=obj["metadata"]["generation"],
            )

        self.status(key, edit)


def _placement(node):
    spec = node.get("spec") or {}
    taints = [(t["key"], t.get("value"), t["effect"]) for t in spec.get("taints") or []]
    return taints, spec.get("unschedulable"), (node.get("metadata") or {}).get("labels")
