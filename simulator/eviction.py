# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The eviction subresource: budgets first, then the caller's preconditions, as the real server has it.

So an eviction with a wrong UID is refused with 409 and has spent budget all the same (measured on 1.36.3).
"""

from __future__ import annotations

from simulator.errors import ApiError, bad_request, not_found, wrong_kind
from simulator.objects import condition, set_condition
from simulator.resources import Resource

Eviction = Resource("policy", "v1", "evictions", "Eviction")
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(store, namespace, name, eviction, dry_run=False):
    _check_body(store, namespace, name, eviction)
    pod = store.get("pods", name, namespace)
    if pod is None:
        raise not_found(store.resource("pods"), name)
    options = eviction.get("deleteOptions") or {}
    dry_run = dry_run or bool(options.get("dryRun"))
    counted = pod["status"].get("phase") not in ("Succeeded", "Failed", "Pending")
    if counted and not pod["metadata"].get("deletionTimestamp"):
        budgets = store.budgets_of(namespace, pod)
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "", text)
        if budgets:
            _spend(store, budgets[0], pod, dry_run)
    store.check_preconditions(store.resource("pods"), pod, options)
    if dry_run:
        return
    stamp = store.clock.stamp()
    reason = ("EvictionByEvictionAPI", "Eviction API: evicting")
    store.mutate(
        "pods", name, lambda p: set_condition(p, "DisruptionTarget", "True", stamp, *reason), namespace, status=True
    )
    store.delete("pods", name, namespace, {k: v for k, v in options.items() if k != "preconditions"})


def _check_body(store, namespace, name, eviction):
    if eviction.get("kind", "Eviction") != "Eviction":
        raise wrong_kind(eviction, Eviction)
    if (eviction.get("metadata") or {}).get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    if store.get("namespaces", namespace) is None:
        raise not_found(store.resource("namespaces"), namespace)


def _spend(store, pdb, pod, dry_run):
    status, name = pdb["status"], pdb["metadata"]["name"]
    if not condition(pod, "Ready"):
        if pdb["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return
        if status["currentHealthy"] >= status["desiredHealthy"] > 0:
            return
    if status.get("observedGeneration", 0) < pdb["metadata"]["generation"]:
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", 10)
    if len(status.get("disruptedPods") or {}) > 2000:
        raise ApiError(
            403, "Forbidden", "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if status["disruptionsAllowed"] <= 0:
        needs, has = status["desiredHealthy"], status["currentHealthy"]
        raise _too_many(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently")
    if dry_run:
        return

    def edit(budget):
        budget["status"]["disruptionsAllowed"] -= 1
        budget["status"].setdefault("disruptedPods", {})[pod["metadata"]["name"]] = store.clock.stamp()

    store.mutate("poddisruptionbudgets", name, edit, pdb["metadata"]["namespace"], status=True)


def _too_many(cause, retry_after=None):
    return ApiError(429, "TooManyRequests", REFUSED, retry_after, [("DisruptionBudget", cause)])
