# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `driver_upgrade`: one held and drained node to a driver version, through the GPU operator."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import driver_steps, patience, rollout
from ansible_collections.gpuops.lifecycle.plugins.module_utils.change.look import gave_up, last_warning, look, pods_of
from ansible_collections.gpuops.lifecycle.plugins.module_utils.change.patches import (
    with_nudge,
    with_retry,
    without_skip,
    without_state,
)
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import ApiError
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys, operands
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
    "accept_gitops": dict(type="bool", default=False),
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
    """Returns version {before, after}, states[], left_skipped[], nudges, duration_s; in check mode also steps[]."""
    name = task.params["node"]
    node = read_node(task, name, task.params["node_uid"])
    policy = rollout.find_policy(task)
    if task.check_mode:
        return _plan(task, node, policy)
    with node_lock(task, name):
        return _Upgrade(task, node, policy).run()


def _driver_of(node):
    return operands.labels_of(node).get(keys.DRIVER_VERSION_LABEL, "")


def _plan(task, node, policy):
    """What would be done to the node once it is held and drained. Refuses what could be refused by then."""
    name, version, before = task.params["node"], task.params["version"], _driver_of(node)
    mirror = watch_node(task, name, task.params["operator_namespace"])
    seen = look(task.params, mirror, policy, node["metadata"]["uid"])
    if not driver_steps.is_upgraded(seen):
        seen = seen._replace(cordoned=True, gpu_pods=())
    step = driver_steps.next_step(seen, name)
    if step.verb == "refuse":
        raise Failed(f"{step.why}. Nothing was changed.")
    if step.verb == "prepare":
        rollout.check_beginning(task, policy, name)
    task.changed = step.verb != "done"
    result = {**_result(before, version, [], 0, 0.0), "steps": driver_steps.plan(seen)}
    result["left_skipped"] = rollout.left_skipped(task, name)
    if task.changed:
        task.progress(f"would change the driver from {before or 'unknown'} to {version}")
    if task.diff:
        result["diff"] = {"before": {"driver": before}, "after": {"driver": version}}
    return result


def _result(before, after, states, nudges, duration_s):
    return {
        "version": {"before": before, "after": after},
        "states": states,
        "nudges": nudges,
        "duration_s": round(duration_s, 1),
    }


class _Upgrade:
    """One node's way, step by step; every step is decided anew from the cluster."""

    def __init__(self, task, node, policy):
        self._task = task
        self._policy = policy
        self._name = task.params["node"]
        self._namespace = task.params["operator_namespace"]
        self._uid = node["metadata"]["uid"]
        self._before = _driver_of(node)
        self._began_at = task.monotonic()
        self._began_time = task.kube.server_time()
        self._states = []
        self._driver = self._before
        self._open = False
        self._state_since = self._began_at
        self._nudges = 0
        self._last_nudge = None
        self._last_told = self._began_at
        self._prepared = rollout.wanted_by(policy) == task.params["version"]
        self._began = self._retried = self._gave_up = False

    def run(self):
        with watch_node(self._task, self._name, self._namespace) as mirror:
            while True:
                seen = self._seen(mirror)
                step = driver_steps.next_step(seen, self._name)
                if step.verb == "done":
                    break
                if step.verb == "refuse":
                    raise self._failed(step.why, again="")
                self._take(step, mirror)
        left = rollout.left_skipped(self._task, self._name)
        return {**self._outcome(self._task.params["version"]), "left_skipped": left}

    def _outcome(self, version):
        duration_s = self._task.monotonic() - self._began_at
        return _result(self._before, version, self._states, self._nudges, duration_s)

    def _failed(self, why, again=" Then run the same command again; it goes on from here."):
        """Failed with what was seen. Nothing here opens a node, so it stays as closed as it is."""
        kept = "" if self._open else f" {self._name} stays held."
        return Failed(f"{why}{self._words()}.{kept}{again}", **self._outcome(self._driver))

    def _words(self):
        """The operator's own last warning about the node since this began, when there is one."""
        said = last_warning(self._events(), self._began_time)
        return f" (the operator says: {said})" if said else ""

    def _events(self):
        about = f"involvedObject.name={self._name},reason=GPUDriverUpgrade"
        try:
            return self._task.kube.list(paths.events("default"), fieldSelector=about)
        except ApiError as error:
            self._task.warn(f"The operator's events about {self._name} could not be read: {error}")
            return []

    def _seen(self, mirror):
        seen = look(self._task.params, mirror, self._policy, self._uid)
        state = seen.state
        entry = {"state": state, "cordoned": seen.cordoned, "armed": seen.armed}
        self._driver, self._open = seen.label_version, not seen.cordoned
        last = self._states[-1] if self._states else {}
        if {key: last.get(key) for key in entry} != entry:
            if last.get("state") != state:
                self._state_since = self._task.monotonic()
                self._task.progress(f"driver upgrade: {state or 'no state'}")
            self._states.append({**entry, "at_s": round(self._task.monotonic() - self._began_at, 1)})
        self._began = self._began or state in driver_steps.IN_FLIGHT
        if seen.pod_in_sync and seen.pod_ready and not seen.validated and last.get("state") != state:
            # Failed shows for a tenth of a second only, then the operator calls the node done; its events are kept.
            self._gave_up = state == driver_steps.FAILED or (
                state == driver_steps.DONE and gave_up(self._events(), operands.driver_of(pods_of(mirror)))
            )
        return seen._replace(prepared=self._prepared, began=self._began, retried=self._retried)

    def _take(self, step, mirror):
        getattr(self, f"_{step.verb}")(mirror)

    def _prepare(self, _mirror):
        rollout.prepare(self._task, self._name)
        self._policy = rollout.find_policy(self._task)
        self._prepared = True

    def _brake(self, mirror):
        self._patch_node(lambda node: rollout.with_skip(node, self._task))
        self._await(
            mirror, lambda s: s.skip == "true" or s.state in driver_steps.IN_FLIGHT, "the skip label did not hold"
        )

    def _arm(self, mirror):
        self._patch_node(without_state)
        moved = (driver_steps.REQUIRED, *driver_steps.IN_FLIGHT)
        self._await(mirror, lambda s: not s.cordoned or (s.armed and s.state in moved), self._not_armed())

    def _armed(self, mirror):
        self._await(mirror, lambda s: s.state not in driver_steps.IDLE or not s.armed, self._not_armed())

    def _notice(self, mirror):
        def moved(seen):
            return driver_steps.next_step(seen, self._name).verb != "notice"

        self._await(mirror, moved, f"the GPU operator did not begin with {self._name}")

    def _unskip(self, mirror):
        self._patch_node(without_skip)
        gone = "the skip label did not go away"
        self._await(mirror, lambda s: not s.skip_ours and not s.skip.startswith(driver_steps.NUDGE), gone)

    def _retry(self, mirror):
        self._patch_node(with_retry)
        self._retried = True
        self._await(mirror, lambda s: s.state != driver_steps.FAILED, "the node stayed in upgrade-failed")

    def _patch_node(self, decide):
        update_node(self._task, self._name, decide, self._uid)

    def _left_s(self):
        return max(0.0, self._task.params["timeout_s"] - (self._task.monotonic() - self._began_at))

    def _await(self, mirror, reached, why):
        """For the operator to look at the node; nothing on the node itself takes time here."""
        limit_s = min(NOTICE_S, self._left_s())

        def tell():
            self._task.progress("waits for the operator to look at the node")

        if mirror.wait_for(lambda: reached(self._seen(mirror)), limit_s, PROGRESS_S, tell):
            return
        policy = rollout.find_policy(self._task)
        found = rollout.stops(self._task, policy)
        if rollout.wanted_by(policy) != self._task.params["version"]:
            found.insert(0, f"the ClusterPolicy wants driver {rollout.wanted_by(policy) or 'unknown'} again")
        if not found:
            found = [patience.stuck(self._seen(mirror), self._name, self._namespace)]
        raise self._failed(f"{why} within {limit_s:.0f} s: {'; '.join(found)}")

    def _not_armed(self):
        return (
            f"the GPU operator did not mark {self._name} as cordoned before its upgrade, so it would open it by itself "
            "afterwards; nothing further was started. Where nothing below explains it, this operator version behaves in "
            "another way than those known. It was not marked"
        )

    def _follow(self, mirror):
        """Until the step is no longer to follow, or a time is up."""
        rules = (self._policy["spec"].get("driver") or {}).get("upgradePolicy") or {}
        seen = self._seen(mirror)
        if seen.state in driver_steps.IN_FLIGHT and not seen.armed:
            self._task.warn(
                f"The operator upgrades {self._name} already and did not find it cordoned when it began, so it will uncordon it "
                "at the end. Somebody cordoned it, or took its skip label off, while it was in upgrade-required."
            )

        def over():
            seen = self._seen(mirror)
            if self._abandoned(seen) or self._overdue(seen, rules):
                return True
            return driver_steps.next_step(seen, self._name).verb != "follow"

        ended = mirror.wait_for(over, self._left_s(), TICK_S, lambda: self._tick(mirror))
        seen = self._seen(mirror)
        if driver_steps.next_step(seen, self._name).verb != "follow":
            return
        if self._abandoned(seen):
            raise self._failed(
                f"the operator gave the upgrade of {self._name} up because its validator did not become Ready, and calls it "
                f"done all the same: {patience.stuck(seen, self._name, self._namespace)}"
            )
        if not ended or self._overdue(seen, rules):
            raise self._failed(self._late(seen, ended))

    def _abandoned(self, seen):
        return self._gave_up and seen.state in driver_steps.IDLE and not seen.validated

    def _overdue(self, seen, rules):
        limit_s = patience.limit_s(seen, rules)
        return limit_s is not None and self._task.monotonic() - self._state_since > limit_s

    def _late(self, seen, ended):
        since_s = self._task.monotonic() - self._state_since
        took = f"stays in {seen.state or 'no state'} for {since_s:.0f} s now"
        if not ended:
            took = f"did not end within {self._task.params['timeout_s']} s ({seen.state or 'no state'} for {since_s:.0f} s)"
        return f"the driver upgrade of {self._name} {took}: {patience.stuck(seen, self._name, self._namespace)}"

    def _tick(self, mirror):
        seen, now = self._seen(mirror), self._task.monotonic()
        if driver_steps.nudge_is_due(seen) and (self._last_nudge is None or now - self._last_nudge > NUDGE_EVERY_S):
            self._nudge(now)
        if now - self._last_told >= PROGRESS_S:
            self._last_told = now
            waiting = f" ({seen.pod_waiting})" if seen.pod_waiting else ""
            since_s = now - self._state_since
            self._task.progress(f"driver upgrade: {seen.state or 'no state'} for {since_s:.0f} s{waiting}")

    def _nudge(self, now):
        """Wake the operator: any change of the skip label does."""
        self._nudges += 1
        self._last_nudge = now
        for value in (f"{driver_steps.NUDGE}{self._nudges}", None):
            self._patch_node(lambda node, value=value: with_nudge(node, value))
