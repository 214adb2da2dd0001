# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NoExecute taints: pods that do not tolerate them go, at once or after their tolerationSeconds."""

from __future__ import annotations

from simulator.controllers.base import Controller
from simulator.objects import is_finished, is_terminating, set_condition, tolerates


def stays_s(pod, taints):
    """Seconds that a pod may stay under these taints: 0 at once, None for good."""
    limits = []
    for taint in taints:
        if taint["effect"] != "NoExecute":
            continue
        matching = [t for t in pod["spec"].get("tolerations") or [] if tolerates([t], taint)]
        if not matching:
            return 0
        limits += [max(0, t["tolerationSeconds"]) for t in matching if t.get("tolerationSeconds") is not None]
    return min(limits, default=None)


class TaintEviction(Controller):
    """Keys are (namespace, name, uid) of pods; a clock starts when a taint is first seen, and stops when it is gone."""

    name = "taint-eviction-controller"

    def __init__(self, store, clock):
        super().__init__(store, clock)
        self._due = {}

    def seen(self, change):
        obj = change.object
        if change.resource.plural == "nodes" and change.type != "DELETED":
            if _no_execute(obj) != _no_execute(change.old or {}):
                for pod in self.store.pods_on(obj["metadata"]["name"]):
                    self.mark(_key(pod))
        elif change.resource.plural == "pods":
            if change.type == "DELETED":
                self._due.pop(obj["metadata"]["uid"], None)
            elif obj["spec"].get("nodeName") and not (change.old or {}).get("spec", {}).get("nodeName"):
                self.mark(_key(obj))

    def reconcile(self, key):
        namespace, name, uid = key
        pod = self.store.get("pods", name, namespace)
        if pod is None or pod["metadata"]["uid"] != uid or is_terminating(pod) or is_finished(pod):
            return
        node = self.store.get("nodes", pod["spec"]["nodeName"])
        limit = stays_s(pod, _no_execute(node or {}))
        now = self.clock.monotonic()
        if limit is None:
            self._due.pop(uid, None)
            return
        due = self._due.setdefault(uid, now + limit)
        if now < due:
            self.mark_later(due - now + 0.01, key)
            return
        stamp = self.clock.stamp()
        words = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        edit = lambda p: set_condition(p, "DisruptionTarget", "True", stamp, *words)  # noqa: E731
        self.store.mutate("pods", name, edit, namespace, status=True)
        self.store.delete("pods", name, namespace)


def _key(pod):
    meta = pod["metadata"]
    return meta["namespace"], meta["name"], meta["uid"]


def _no_execute(node):
    return [t for t in (node.get("spec") or {}).get("taints") or [] if t["effect"] == "NoExecute"]
