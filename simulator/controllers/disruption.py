# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PodDisruptionBudget status, by the arithmetic of the real controller (measured on 1.36.3)."""

from __future__ import annotations

import datetime
import math

from simulator.controllers.base import Controller
from simulator.objects import condition, controller_of, is_finished, is_terminating, key_of, set_condition
from simulator.selectors import by_object

DISRUPTED_FOR_S = 120
SCALED = {"ReplicaSet": "replicasets", "StatefulSet": "statefulsets", "ReplicationController": "replicationcontrollers"}


class Disruption(Controller):
    name = "disruption"

    def seen(self, change):
        obj, namespace = change.object, change.object["metadata"].get("namespace", "")
        if change.resource.plural == "poddisruptionbudgets":
            self.mark(key_of(obj))
        elif change.resource.plural == "pods":
            for version in filter(None, (change.old, obj)):
                for pdb in self.store.budgets_of(namespace, version):
                    self.mark(key_of(pdb))
        elif change.resource.plural in ("deployments", "replicasets", "statefulsets"):
            old = (change.old or {}).get("spec") or {}
            if old.get("replicas") != obj["spec"].get("replicas"):
                for pdb in self.store.list("poddisruptionbudgets", namespace):
                    self.mark(key_of(pdb))

    def reconcile(self, key):
        pdb = self.store.get("poddisruptionbudgets", key[1], key[0])
        if pdb is None:
            return
        match = by_object(pdb["spec"].get("selector"))
        pods = [p for p in self.store.list("pods", key[0]) if match(p) and not is_finished(p)]
        expected, desired, failed = self._expected(key[0], pdb["spec"], pods)
        disrupted = self._disrupted(key, pdb)
        healthy = sum(
            1
            for p in pods
            if condition(p, "Ready") and not is_terminating(p) and p["metadata"]["name"] not in disrupted
        )
        allowed = 0 if failed or expected <= 0 else max(0, healthy - desired)
        reason = "SyncFailed" if failed else "SufficientPods" if allowed else "InsufficientPods"
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
            word = "True" if allowed else "False"
            set_condition(obj, "DisruptionAllowed", word, stamp, reason, observedGeneration=generation)

        self.store.mutate("poddisruptionbudgets", key[1], edit, key[0], status=True)

    def _expected(self, namespace, spec, pods):
        """(expected pods, desired healthy, whether the budget cannot be computed)."""
        minimum, maximum = spec.get("minAvailable"), spec.get("maxUnavailable")
        if maximum is None and not isinstance(minimum, str):
            return len(pods), 1 if minimum is None else minimum, False
        scales, failed = {}, False
        for pod in pods:
            ref = controller_of(pod)
            if ref is None:
                continue
            if ref["kind"] not in SCALED:
                failed = True
                continue
            owner = self.store.get(SCALED[ref["kind"]], ref["name"], namespace)
            above = controller_of(owner) if owner else None
            if above and above["kind"] == "Deployment":
                owner = self.store.get("deployments", above["name"], namespace) or owner
            if owner:
                scales[owner["metadata"]["uid"]] = owner["spec"]["replicas"]
        expected = sum(scales.values())

        def scaled(value):
            return math.ceil(int(value[:-1]) * expected / 100) if isinstance(value, str) else value

        if maximum is not None:
            return expected, max(0, expected - scaled(maximum)), failed
        return expected, scaled(minimum), failed

    def _disrupted(self, key, pdb):
        """Evicted pods whose deletion has not been seen yet; they stop counting after two (simulated) minutes."""
        kept = {}
        for name, at in (pdb["status"].get("disruptedPods") or {}).items():
            pod = self.store.get("pods", name, key[0])
            if pod is None or is_terminating(pod):
                continue
            then = datetime.datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
            passed = (self.clock.now() - then).total_seconds() * self.clock.speed
            if passed < DISRUPTED_FOR_S:
                kept[name] = at
                self.mark_later(DISRUPTED_FOR_S - passed + 0.1, key)
        return kept
