# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `driver_upgrade`: one held and drained node to a driver version, through the GPU operator."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import driver_steps, rollout
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import hold, keys, operands
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.lock import node_lock
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.node_ready import watch_node
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import read_node, update_node
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

ARGUMENT_SPEC = {
    **CONNECTION_SPEC,
    "node": dict(type="str", required=True),
    "node_uid": dict(type="str"),
    "version": dict(type="str", required=True),
    "policy": dict(type="str"),
    "owner": dict(type="str", default="gpuops"),
    "operator_namespace": dict(type="str", default=keys.OPERATOR_NAMESPACE),
    "timeout_s": dict(type="int", default=2700),
    "lock_s": dict(type="int", default=30),
}
# The operator looks every 120 s at the latest; two of these and a margin.
NOTICE_S = 300
TICK_S = 2
PROGRESS_S = 15
NUDGE_EVERY_S = 10


def run(task):
    """Returns version {before, after}, states[], left_skipped[], nudges, duration_s."""
    name = task.params["node"]
    policy = rollout.find_policy(task)
    node = read_node(task, name, task.params["node_uid"])
    before = operands.labels_of(node).get(keys.DRIVER_VERSION_LABEL, "")
    if task.check_mode:
        return _plan(task, node, policy, before)
    with node_lock(task, name):
        return _Upgrade(task, before).run()


def _plan(task, node, policy, before):
    mirror = watch_node(task, task.params["node"], task.params["operator_namespace"])
    step = driver_steps.next_step(_look(task, mirror, policy), task.params["node"])
    task.changed = step.verb != "done"
    result = _result(before, task.params["version"], [], [], 0, 0.0)
    if task.changed:
        task.progress(f"would change the driver from {before or 'unknown'} to {task.params['version']}")
    if task.diff:
        result["diff"] = {"before": {"driver": before}, "after": {"driver": task.params["version"]}}
    return result


def _result(before, after, states, left, nudges, duration_s):
    return {
        "version": {"before": before, "after": after},
        "states": states,
        "left_skipped": left,
        "nudges": nudges,
        "duration_s": round(duration_s, 1),
    }


def _look(task, mirror, policy):
    """driver_steps.Seen of the moment."""
    name = task.params["node"]
    node = next(iter(mirror.objects("node").values()), None)
    if node is None:
        raise Failed(f"The node {name} is gone. Whatever was done to it is not proven; take it in again from join.")
    pods = list(mirror.objects("pods").values())
    driver = next((p for p in pods if operands.is_driver(p)), None)
    validators = [p for p in pods if operands.is_validator(p)]
    labels, annotations = operands.labels_of(node), node["metadata"].get("annotations") or {}
    workloads = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in operands.gpu_workloads(pods)]
    return driver_steps.Seen(
        wanted=task.params["version"],
        policy_version=((policy["spec"].get("driver") or {}).get("version") or ""),
        state=labels.get(keys.UPGRADE_STATE, ""),
        label_version=labels.get(keys.DRIVER_VERSION_LABEL, ""),
        cordoned=hold.is_cordoned(node),
        armed=keys.INITIAL_UNSCHEDULABLE in annotations,
        skip=labels.get(keys.UPGRADE_SKIP, ""),
        skip_ours=keys.SKIP_SET_BY in annotations,
        pod_in_sync=operands.in_sync(driver, list(mirror.objects("revisions").values())) if driver else None,
        pod_ready=bool(driver) and operands.is_ready(driver),
        pod_restarts=operands.restarts(driver) if driver else 0,
        pod_waiting=operands.waiting_reason(driver) if driver else "",
        validator_ready=bool(validators) and all(map(operands.is_ready, validators)),
        gpu_pods=tuple(sorted(workloads)),
    )


class _Upgrade:
    """One node's way, step by step; every step is decided anew from the cluster."""

    def __init__(self, task, before):
        self._task = task
        self._before = before
        self._name = task.params["node"]
        self._states = []
        self._nudges = 0
        self._last_nudge = None
        self._began = task.monotonic()
        self._failed_seen = False

    def run(self):
        task = self._task
        self._policy = rollout.find_policy(task)
        mirror = watch_node(task, self._name, task.params["operator_namespace"])
        with mirror:
            while True:
                seen = self._seen(mirror)
                step = driver_steps.next_step(seen, self._name)
                if step.verb == "done":
                    break
                if step.verb == "refuse":
                    raise Failed(f"{step.why}. {self._stays()}", **self._outcome())
                self._take(step, seen, mirror)
        return self._outcome()

    def _stays(self):
        return f"{self._name} stays held."

    def _outcome(self):
        left = rollout.left_skipped(self._task, self._name)
        version = self._task.params["version"]
        return _result(self._before, version, self._states, left, self._nudges, self._task.monotonic() - self._began)

    def _seen(self, mirror):
        seen = _look(self._task, mirror, self._policy)
        entry = {"state": seen.state, "cordoned": seen.cordoned, "armed": seen.armed}
        if not self._states or {k: self._states[-1][k] for k in entry} != entry:
            at = round(self._task.monotonic() - self._began, 1)
            if not self._states or self._states[-1]["state"] != seen.state:
                self._task.progress(f"driver upgrade: {seen.state or 'no state'}")
            self._states.append({**entry, "at_s": at})
        if seen.state == driver_steps.FAILED:
            self._failed_seen = True
        return seen

    def _take(self, step, seen, mirror):
        if step.verb == "prepare":
            rollout.prepare(self._task, self._policy, self._name)
            self._policy = rollout.find_policy(self._task)
        elif step.verb == "arm":
            self._patch_node(_without_state)
            self._await(mirror, lambda s: s.armed and s.state == driver_steps.REQUIRED, NOTICE_S, self._not_armed())
        elif step.verb == "armed":
            self._await(mirror, lambda s: s.state != seen.state or not s.armed, NOTICE_S, self._not_armed())
        elif step.verb == "notice":
            self._await(mirror, lambda s: s.state != seen.state, NOTICE_S, self._not_noticed())
        elif step.verb == "unskip":
            self._patch_node(_without_skip)
            self._await(mirror, lambda s: not s.skip_ours, NOTICE_S, "the skip label did not go away")
        else:
            self._follow(mirror)

    def _patch_node(self, decide):
        update_node(self._task, self._name, decide, self._task.params["node_uid"])

    def _await(self, mirror, reached, limit_s, why):
        def tell():
            self._task.progress("waits for the operator to look at the node")

        if not mirror.wait_for(lambda: reached(self._seen(mirror)), limit_s, PROGRESS_S, tell):
            raise Failed(f"{why} within {limit_s} s. {self._stays()}", **self._outcome())

    def _not_armed(self):
        return (
            f"the GPU operator did not mark {self._name} as cordoned before its upgrade, so it would open it by itself "
            "afterwards; this operator version behaves in another way than the ones known, and nothing further was started"
        )

    def _not_noticed(self):
        return (
            f"the GPU operator did not begin with {self._name}. Look at its log (kubectl -n "
            f"{self._task.params['operator_namespace']} logs deploy/gpu-operator): it upgrades no node while one is not Ready or "
            "a driver pod is missing"
        )

    def _follow(self, mirror):
        """Until the step is no longer to follow, or the time is up."""
        left = self._task.params["timeout_s"] - (self._task.monotonic() - self._began)
        last_told = [self._task.monotonic()]

        def over():
            seen = self._seen(mirror)
            if self._failed_seen and seen.state == driver_steps.DONE and not seen.validator_ready:
                return True
            return driver_steps.next_step(seen, self._name).verb != "follow"

        def tick():
            seen, now = self._seen(mirror), self._task.monotonic()
            if driver_steps.nudge_is_due(seen) and (self._last_nudge is None or now - self._last_nudge > NUDGE_EVERY_S):
                self._nudge(now)
            if now - last_told[0] >= PROGRESS_S:
                last_told[0] = now
                waiting = f" ({seen.pod_waiting})" if seen.pod_waiting else ""
                self._task.progress(f"driver upgrade: {seen.state or 'no state'} since a while{waiting}")

        ended = mirror.wait_for(over, max(0.0, left), TICK_S, tick)
        seen = self._seen(mirror)
        if self._failed_seen and seen.state == driver_steps.DONE and not seen.validator_ready:
            raise Failed(
                f"the operator gave the upgrade of {self._name} up because its validator did not become Ready, and calls it "
                f"done all the same. {self._stays()} See the validator pod: kubectl -n "
                f"{self._task.params['operator_namespace']} describe pod -l app=nvidia-operator-validator --field-selector "
                f"spec.nodeName={self._name}",
                **self._outcome(),
            )
        if not ended:
            raise Failed(
                f"the driver upgrade of {self._name} did not end within {self._task.params['timeout_s']} s; the operator is in "
                f"{seen.state or 'no state'}, its driver pod is {'Ready' if seen.pod_ready else 'not Ready'}"
                f"{' (' + seen.pod_waiting + ')' if seen.pod_waiting else ''}. {self._stays()} See kubectl -n "
                f"{self._task.params['operator_namespace']} get pods -o wide --field-selector spec.nodeName={self._name}; then "
                "run the same command again, it goes on from here.",
                **self._outcome(),
            )

    def _nudge(self, now):
        """Wake the operator: any change of the skip label does, and only "true" means skip (k8s-operator-libs)."""
        self._nudges += 1
        self._last_nudge = now
        for value in (f"nudge-{self._nudges}", None):
            self._patch_node(lambda node, value=value: _with_nudge(node, value))


def _without_state(node):
    """Only from upgrade-required and unarmed: in flight the label is the operator's own."""
    labels, annotations = operands.labels_of(node), node["metadata"].get("annotations") or {}
    if labels.get(keys.UPGRADE_STATE) != driver_steps.REQUIRED or keys.INITIAL_UNSCHEDULABLE in annotations:
        return None
    return {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "labels": {keys.UPGRADE_STATE: None}}}


def _with_nudge(node, value):
    if operands.labels_of(node).get(keys.UPGRADE_SKIP) in ("true", value):
        return None
    return {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "labels": {keys.UPGRADE_SKIP: value}}}


def _without_skip(node):
    """Take our own skip label off, and only ours."""
    if keys.SKIP_SET_BY not in (node["metadata"].get("annotations") or {}):
        return None
    version = node["metadata"]["resourceVersion"]
    return {
        "metadata": {
            "resourceVersion": version,
            "labels": {keys.UPGRADE_SKIP: None},
            "annotations": {keys.SKIP_SET_BY: None},
        }
    }
