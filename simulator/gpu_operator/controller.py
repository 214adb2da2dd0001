# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPU operator: installs its operands, follows the ClusterPolicy, and drives the upgrade state machine."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
import traceback
from dataclasses import dataclass, field

from simulator.gpu_operator import eviction, keys
from simulator.gpu_operator.operands import Operands
from simulator.gpu_operator.policy import CRD, OPERANDS, cluster_policy, daemonset, deploy_label
from simulator.gpu_operator.upgrade import NodeView, Policy, step
from simulator.objects import condition, is_finished, is_terminating
from simulator.selectors import parse_labels

AGENT = "gpu-operator"
# How soon the operator looks again while an operand is not ready.
RECHECK_S = 5


@dataclass
class Settings:
    """Of a scenario: what is installed, and how long things take (simulated seconds)."""

    driver: str = "575.57.08"
    tolerations: list = field(default_factory=list)
    upgrade_policy: dict = field(default_factory=dict)
    restart_only: bool = False
    tick_s: float = 120
    driver_load_s: float = 60
    unload_s: float = 5
    operand_s: float = 4
    validator_s: float = 10
    crash_s: float = 10
    transition_s: float = 0.5


class GpuOperator:
    def __init__(self, store, clock, machines, kubelet, settings):
        self.store, self.clock, self.machines, self.settings = store, clock, machines, settings
        self.operands = Operands(store, clock, machines, kubelet, settings)
        self.problems = []
        self._wake = asyncio.Event()
        self._working = set()
        self._tasks = set()
        store.subscribe(self._seen)

    def install(self):
        with self.store.acting(AGENT):
            self.store.create("namespaces", {"metadata": {"name": keys.NAMESPACE}})
            self.store.create("customresourcedefinitions", CRD)
            self.store.create("clusterpolicies", cluster_policy(self.settings))

    def _seen(self, change):
        if change is None:
            return
        plural, obj, old = change.resource.plural, change.object, change.old
        if (
            plural == "clusterpolicies"
            and (old is None or old.get("spec") != obj.get("spec"))
            or plural == "daemonsets"
            and (old is None or old["spec"] != obj["spec"])
            and self._is_driver(obj)
        ):
            self._wake.set()
        elif plural == "nodes":
            watched = (keys.STATE, keys.SKIP)
            before = ((old or {}).get("metadata") or {}).get("labels") or {}
            now = obj["metadata"].get("labels") or {}
            if old is None or any(before.get(k) != now.get(k) for k in watched) or change.type == "DELETED":
                self._wake.set()
            if old is None:
                self._label_node(obj)

    def _is_driver(self, obj):
        return obj["metadata"]["name"] == OPERANDS["driver"][0]

    def _label_node(self, node):
        """A node with an NVIDIA PCI device gets the switches of the operands."""
        labels = node["metadata"].get("labels") or {}
        if labels.get("feature.node.kubernetes.io/pci-10de.present") != "true":
            return
        wanted = {deploy_label(operand): "true" for operand in OPERANDS}
        wanted["nvidia.com/gpu.present"] = "true"
        wanted.update({"nvidia.com/mig.config": "all-disabled", "nvidia.com/mig.config.state": "success"})
        self.operands.labels(node["metadata"]["name"], {k: v for k, v in wanted.items() if k not in labels})

    def stop(self):
        for task in list(self._tasks):
            task.cancel()

    async def run(self):
        """Nodes are upgraded at each wake-up and each tick; what is not ready yet is looked at every few seconds."""
        left, ready = self.settings.tick_s, False
        while True:
            pause = left if ready else min(left, RECHECK_S)
            # asyncio.wait_for may swallow a cancellation that comes together with the wake-up (python/cpython#86296).
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause / self.clock.speed):
                    await self._wake.wait()
            due = self._wake.is_set() or pause >= left
            left = self.settings.tick_s if due else left - pause
            self._wake.clear()
            await self.clock.sleep(self.settings.transition_s)
            try:
                with self.store.acting(AGENT):
                    ready = self.reconcile(upgrade=due)
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                self.problems.append(f"gpu-operator: {error!r}")

    def reconcile(self, upgrade=True):
        """True when all operands are ready."""
        ready = True
        for policy in self.store.list("clusterpolicies"):
            self._deploy(policy)
            if upgrade:
                self._upgrade(policy)
            ready = self._status(policy) and ready
        return ready

    def _deploy(self, policy):
        for operand in OPERANDS:
            wanted = daemonset(operand, policy)
            found = self.store.get("daemonsets", wanted["metadata"]["name"], keys.NAMESPACE)
            if found is None:
                self.store.create("daemonsets", wanted, keys.NAMESPACE)
            elif found["spec"]["template"] != wanted["spec"]["template"]:
                template = wanted["spec"]["template"]
                self.store.mutate(
                    "daemonsets",
                    wanted["metadata"]["name"],
                    lambda o, t=template: o["spec"].update(template=t),
                    keys.NAMESPACE,
                )

    def _status(self, policy):
        pods = self.store.list("pods", keys.NAMESPACE)
        ready = bool(pods) and all(condition(p, "Ready") for p in pods)
        state = {"state": "ready" if ready else "notReady", "namespace": keys.NAMESPACE}
        self.store.mutate("clusterpolicies", policy["metadata"]["name"], lambda o: o.update(status=state), status=True)
        return ready

    # -- driver upgrades
    def _upgrade(self, policy):
        rules = policy["spec"]["driver"].get("upgradePolicy") or {}
        nodes = [n["metadata"]["name"] for n in self.store.list("nodes") if n["metadata"]["name"] in self.machines]
        if not rules.get("autoUpgrade"):
            for name in nodes:
                self._label(name, keys.STATE, None)
                self._annotate(name, keys.ENABLED, None)
            return
        for name in nodes:
            if self.machines[name].gpus:
                self._annotate(name, keys.ENABLED, "true")
        if rules.get("drain") is None and not self.settings.restart_only:
            return  # the operator of September 2025 panics here, recovers, and upgrades nothing
        driver = self.store.get("daemonsets", OPERANDS["driver"][0], keys.NAMESPACE)
        pods = [p for p in self.store.pods_of(driver["metadata"]["uid"]) if not is_finished(p)]
        if (driver.get("status") or {}).get("desiredNumberScheduled", 0) != len(pods):
            return  # "driver DaemonSet should not have Unscheduled pods": nothing happens on any node
        newest = self._newest_revision(driver)
        views = [view for pod in pods if (view := self._view(pod, driver, newest, rules)) is not None]
        views.sort(key=lambda view: view.name)
        how = Policy(
            max_parallel=rules.get("maxParallelUpgrades", 1),
            max_unavailable=rules.get("maxUnavailable", "25%"),
            wait_selector=(rules.get("waitForCompletion") or {}).get("podSelector") or "",
            wait_timeout_s=(rules.get("waitForCompletion") or {}).get("timeoutSeconds") or 0,
            drain_enabled=(rules.get("drain") or {}).get("enable", False),
            restart_only=self.settings.restart_only,
        )
        by_node = {pod["spec"]["nodeName"]: pod for pod in pods}
        for action in step(views, how):
            self._act(action, by_node, rules)

    def _newest_revision(self, driver):
        owned = [o for plural, o in self.store.owned_by(driver["metadata"]["uid"]) if plural == "controllerrevisions"]
        newest = max(owned, key=lambda o: o["revision"], default=None)
        return newest["metadata"]["labels"][keys.REVISION_HASH] if newest else None

    def _view(self, pod, driver, newest, rules):
        node = self.store.get("nodes", pod["spec"].get("nodeName") or "")
        if node is None:
            return None
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        annotations = node["metadata"].get("annotations") or {}
        statuses = pod["status"].get("containerStatuses") or []
        template = driver["spec"]["template"]["spec"]
        validators = [
            p
            for p in self.store.pods_on(name)
            if p["metadata"].get("labels", {}).get("app") == OPERANDS["validator"][0]
        ]
        selector = (rules.get("waitForCompletion") or {}).get("podSelector") or ""
        waited = 0
        if selector:
            match = parse_labels(selector)
            waited = sum(match(p) and not is_finished(p) for p in self.store.pods_on(name))
        return NodeView(
            name=name,
            state=labels.get(keys.STATE, ""),
            cordoned=bool((node.get("spec") or {}).get("unschedulable")),
            ready=condition(node, "Ready"),
            skip=labels.get(keys.SKIP) == "true",
            requested=annotations.get(keys.REQUESTED) == "true",
            initially_unschedulable=keys.INITIAL in annotations,
            waited_s=self._since(annotations.get(keys.WAIT_START)),
            validating_s=self._since(annotations.get(keys.VALIDATION_START)),
            pod_in_sync=pod["metadata"].get("labels", {}).get(keys.REVISION_HASH) == newest,
            config_unchanged=_config(pod["spec"]) == _config(template),
            pod_ready=condition(pod, "Ready") and not is_terminating(pod),
            pod_restarts=max((s.get("restartCount", 0) for s in statuses), default=0),
            pod_terminating=is_terminating(pod),
            validators=[condition(p, "Ready") and not is_terminating(p) for p in validators],
            waited_for_pods=waited,
        )

    def _act(self, action, pods, rules):
        name = action.node
        if action.verb == "state":
            self._state(name, action.value)
        elif action.verb in ("cordon", "uncordon"):
            value = True if action.verb == "cordon" else None
            self.store.mutate("nodes", name, lambda o: _set(o["spec"], "unschedulable", value))
        elif action.verb == "annotate":
            self._annotate(name, action.key, action.value)
        elif action.verb == "stamp":
            # Whole seconds in the field; with a faster clock a second would be too coarse.
            self._annotate(name, action.key, f"{time.time():.{0 if self.clock.speed <= 1 else 3}f}")
        elif action.verb == "restart":
            meta = pods[name]["metadata"]
            self.store.delete("pods", meta["name"], meta["namespace"])
        elif action.verb in ("evict", "drain") and name not in self._working:
            self._working.add(name)
            task = asyncio.ensure_future(self._evict(name, action.verb, rules))
            self._tasks.add(task)
            task.add_done_callback(self._evicted)

    def _evicted(self, task):
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            traceback.print_exception(task.exception(), file=sys.stderr)
            self.problems.append(f"gpu-operator: {task.exception()!r}")

    def _since(self, stamp):
        """Simulated seconds since a Unix time in an annotation; None without one."""
        return None if stamp is None else (time.time() - float(stamp)) * self.clock.speed

    def _state(self, name, value):
        self._label(name, keys.STATE, value)
        self._event(name, f"Successfully updated node state label to {value}")

    def _label(self, name, key, value):
        self.store.mutate("nodes", name, lambda o: _set(o["metadata"].setdefault("labels", {}), key, value))

    def _annotate(self, name, key, value):
        self.store.mutate("nodes", name, lambda o: _set(o["metadata"].setdefault("annotations", {}), key, value))

    def _event(self, name, message, kind="Normal"):
        node = self.store.get("nodes", name)
        if node is None:
            return
        stamp = self.clock.stamp()
        body = {
            "metadata": {"generateName": f"{name}."},
            "involvedObject": {"kind": "Node", "name": name, "uid": node["metadata"]["uid"], "apiVersion": "v1"},
            "reason": "GPUDriverUpgrade",
            "message": message,
            "type": kind,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "source": {"component": "nvidia-gpu-operator"},
        }
        self.store.create("events", body, "default")

    async def _evict(self, name, how, rules):
        """Evict the GPU pods of a node (or all, for a drain) within the time the policy gives, then move the node on."""
        drain = rules.get("drain") or {}
        limits, drains = (rules.get("podDeletion") or {}) if how == "evict" else drain, drain.get("enable")
        with self.store.acting(AGENT):
            try:
                targets = eviction.targets(self.store.pods_on(name), how, limits)
                if not targets:
                    self._state(name, keys.POD_RESTART)
                    return
                # Pods that may not be deleted are found before the first eviction, and no event names them.
                fit = all(eviction.may_delete(pod, limits) for pod in targets)
                why = await eviction.evict_all(self.store, self.clock, name, targets, limits) if fit else ""
                if fit and not why:
                    self._state(name, keys.POD_RESTART)
                    self._event(name, "Deleted workload pods on the node for the driver upgrade")
                    return
                if why:
                    words = "Failed to delete workload pods on the node for the driver upgrade"
                    self._event(name, f"{words}, {why}", "Warning")
                self._state(name, keys.DRAIN if how == "evict" and drains else keys.FAILED)
            finally:
                self._working.discard(name)


def _config(spec):
    """What makes a driver pod's installation: what its DRIVER_CONFIG_DIGEST is computed from."""
    return [(c["name"], c["image"], c.get("env")) for c in spec["containers"]]


def _set(mapping, key, value):
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
