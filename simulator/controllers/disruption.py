# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PodDisruptionBudget status, by the arithmetic of kube-controller-manager 1.36 (disruption.go), measured there too."""

from __future__ import annotations

from simulator.controllers.base import Controller
from simulator.controllers.owners import whole_or_percent
from simulator.objects import condition, controller_of, is_terminating, key_of, set_condition
from simulator.selectors import by_object

DISRUPTED_FOR_S = 120


class SyncFailed(Exception):
    """The budget cannot be computed; the text becomes the message of its condition."""


def desired_healthy(spec, pods, scale):
    """(expected pods, healthy pods asked for). scale: what the pods' controllers ask for, as a function."""
    minimum, maximum = spec.get("minAvailable"), spec.get("maxUnavailable")
    if maximum is not None:
        expected = scale()
        return expected, max(0, expected - whole_or_percent(maximum, expected, up=True))
    if isinstance(minimum, str):
        expected = scale()
        return expected, whole_or_percent(minimum, expected, up=True)
    return len(pods), 0 if minimum is None else minimum


class Disruption(Controller):
    name = "disruption"

    def __init__(self, store, clock):
        super().__init__(store, clock)
        self._selected = {}
        self._since = {}

    def seen(self, change):
        obj, namespace = change.object, change.object["metadata"].get("namespace", "")
        if change.resource.plural == "poddisruptionbudgets":
            key = key_of(obj)
            if change.type == "DELETED":
                self._selected.pop(key, None)
                self._since.pop(key, None)
                return
            if change.old is None or change.old["spec"] != obj["spec"]:
                match = by_object(obj["spec"].get("selector"))
                self._selected[key] = {
                    p["metadata"]["name"]: None for p in self.store.list("pods", namespace) if match(p)
                }
            self.mark(key)
        elif change.resource.plural == "pods":
            self._seen_pod(change, namespace)
        elif change.resource.plural in ("deployments", "replicasets", "statefulsets", "replicationcontrollers"):
            old = (change.old or {}).get("spec") or {}
            if old.get("replicas") != obj["spec"].get("replicas"):
                for pdb in self.store.list("poddisruptionbudgets", namespace):
                    self.mark(key_of(pdb))

    def _seen_pod(self, change, namespace):
        name = change.object["metadata"]["name"]
        labels = change.object["metadata"].get("labels")
        moved = change.old is not None and change.old["metadata"].get("labels") != labels
        if change.type == "DELETED" or moved:
            for pdb in self.store.budgets_of(namespace, change.old or change.object):
                self._selected.get(key_of(pdb), {}).pop(name, None)
                self.mark(key_of(pdb))
        if change.type != "DELETED":
            for pdb in self.store.budgets_of(namespace, change.object):
                self._selected.setdefault(key_of(pdb), {})[name] = None
                self.mark(key_of(pdb))

    def reconcile(self, key):
        pdb = self.store.get("poddisruptionbudgets", key[1], key[0])
        if pdb is None:
            return
        found = (self.store.get("pods", name, key[0]) for name in self._selected.get(key, ()))
        pods = [p for p in found if p is not None]
        try:
            expected, desired = desired_healthy(pdb["spec"], pods, lambda: self._scale(key[0], pods))
        except SyncFailed as error:
            self._fail_safe(key, str(error))
            return
        disrupted = self._disrupted(key, pdb, pods)
        healthy = sum(
            condition(p, "Ready") and not is_terminating(p) and p["metadata"]["name"] not in disrupted for p in pods
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        stamp = self.clock.stamp()

        def edit(obj):
            generation, status = obj["metadata"]["generation"], obj["status"]
            status.update(
                currentHealthy=healthy,
                desiredHealthy=desired,
                expectedPods=expected,
                disruptionsAllowed=allowed,
                observedGeneration=generation,
            )
            status.pop("disruptedPods", None)
            if disrupted:
                status["disruptedPods"] = disrupted
            word, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
            set_condition(obj, "DisruptionAllowed", word, stamp, reason, observedGeneration=generation)

        self.store.mutate("poddisruptionbudgets", key[1], edit, key[0], status=True)

    def _fail_safe(self, key, message):
        """Nothing is allowed and the generation is not observed: the other figures stay as they were."""
        stamp = self.clock.stamp()

        def edit(obj):
            obj["status"]["disruptionsAllowed"] = 0
            seen = obj["status"].get("observedGeneration", 0)
            set_condition(obj, "DisruptionAllowed", "False", stamp, "SyncFailed", message, observedGeneration=seen)

        self.store.mutate("poddisruptionbudgets", key[1], edit, key[0], status=True)

    def _scale(self, namespace, pods):
        """Pods that the controllers of these pods ask for; pods without a controller do not count."""
        scales, known = {}, set()
        for pod in pods:
            ref = controller_of(pod)
            if ref is None or ref["uid"] in known:
                continue
            known.add(ref["uid"])
            owner = self._scaled(namespace, ref)
            if owner is None:
                raise SyncFailed(f'found no controllers for pod "{pod["metadata"]["name"]}"')
            above = controller_of(owner) if ref["kind"] == "ReplicaSet" else None
            if above and above["kind"] == "Deployment":
                owner = self.store.get("deployments", above["name"], namespace) or owner
            scales[owner["metadata"]["uid"]] = owner["spec"].get("replicas", 0)
        return sum(scales.values())

    def _scaled(self, namespace, ref):
        group, _slash, version = ref["apiVersion"].rpartition("/")
        resource = next((r for r in self.store.resources if r.kind == ref["kind"] and r.group == group), None)
        if resource is None:
            raise SyncFailed(f'no matches for kind "{ref["kind"]}" in version "{group}/{version}"')
        if "scale" not in resource.subresources:
            raise SyncFailed(f"{resource.full_name} does not implement the scale subresource")
        owner = self.store.get(resource, ref["name"], namespace)
        return owner if owner and owner["metadata"]["uid"] == ref["uid"] else None

    def _disrupted(self, key, pdb, pods):
        """Evicted pods whose deletion has not been seen yet; they stop counting after two (simulated) minutes.

        Measured from when an entry was first seen: its time stamp has whole real seconds, too coarse for a fast clock.
        """
        entries, now = pdb["status"].get("disruptedPods") or {}, self.clock.monotonic()
        since = self._since.get(key, {})
        self._since[key] = since = {item: since.get(item, now) for item in entries.items()}
        there = {p["metadata"]["name"] for p in pods if not is_terminating(p)}
        kept = {}
        for name, at in entries.items():
            left = since[(name, at)] + DISRUPTED_FOR_S - now
            if name in there and left > 0:
                kept[name] = at
                self.mark_later(left + 0.01, key)
        return kept
