# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `drain`: evict every pod from a held node, within its budgets and a deadline."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import info, pods, progress
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.loop import Loop
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import ApiError, Forbidden
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.mirror import Mirror
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import hold
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.lock import node_lock
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import read_node
from ansible_collections.gpuops.lifecycle.plugins.module_utils.outcome import describe
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

# Beyond the longest grace: for budgets that open only when replacements have become Ready.
ROOM_S = 600

ARGUMENT_SPEC = {
    **info.ARGUMENT_SPEC,
    "owner": dict(type="str"),
    "timeout_s": dict(type="int"),
    "parallel": dict(type="int", default=16),
    "lock_s": dict(type="int", default=30),
}


def run(task):
    """Returns pods[], duration_s, requests, deadline_s; in check mode what drain_info returns. Raises Failed when a pod
    is left, with the same result; the node then stays held."""
    if task.check_mode:
        return _plan(task)
    _check_numbers(task)
    with node_lock(task, task.params["node"]):
        return _drain(task)


def _plan(task):
    result = info.run(task)
    for text in result["table"]:
        task.progress(text)
    going = [f"{pod['namespace']}/{pod['name']}" for pod in result["pods"] if pod["verdict"] != "skip"]
    task.changed = bool(going)
    if task.diff:
        result["diff"] = _diff(going, [])
    return result


def _diff(before, after):
    return {"before": {"pods_to_evict": before}, "after": {"pods_to_evict": after}}


def _check_numbers(task):
    for option, least in (("timeout_s", 0), ("grace_period_s", 0), ("parallel", 1)):
        value = task.params[option]
        if value is not None and value < least:
            raise Failed(f"{option} must be {least} or more, not {value}. Nothing was changed.")


def _drain(task):
    name, grace_period_s = task.params["node"], task.params["grace_period_s"]
    started, requests = task.monotonic(), task.kube.requests
    mirror = Mirror(task.kube, monotonic=task.monotonic)
    node = _held_node(task, mirror)
    mirror.add("pods", paths.pods(), fieldSelector=f"spec.nodeName={name}")
    has_pdbs = _add_pdbs(task, mirror)
    loop = Loop(
        task,
        mirror,
        has_pdbs,
        info.DaemonSets(task),
        info.pod_options(task),
        grace_period_s,
        task.params["parallel"],
        pods.parse_time(task.kube.server_time()),
    )
    pending = [one for one in loop.look() if one.way != "leave"]
    deadline_s = _deadline_s(task, pending)

    def result():
        seen = loop.results()
        diff = (
            {"diff": _diff(_labels(seen, "evicted", "left", "failed"), _labels(seen, "left", "failed"))}
            if task.diff
            else {}
        )
        return {
            **diff,
            "pods": seen,
            "duration_s": round(task.monotonic() - started, 3),
            "requests": task.kube.requests - requests,
            "deadline_s": deadline_s,
        }

    if loop.refused():
        raise Failed(_undecided(node, loop), **result())
    if loop.is_empty():
        return result()
    try:
        with mirror:
            emptied = loop.run(deadline_s)
    except (ApiError, Failed) as error:
        raise Failed(describe(task, error), **result()) from error
    if not emptied:
        raise Failed(_incomplete(task, loop, deadline_s), **result())
    return result()


def _labels(results, *outcomes):
    return [f"{pod['namespace']}/{pod['name']}" for pod in results if pod["outcome"] in outcomes]


def _held_node(task, mirror):
    """The Node, mirrored, once it is certain that nothing new is scheduled on it."""
    name, uid, owner = task.params["node"], task.params["node_uid"], task.params["owner"]
    mirror.add("node", paths.nodes(), fieldSelector=f"metadata.name={name}")
    node = next(iter(mirror.objects("node").values()), None)
    if node is None or (uid and node["metadata"]["uid"] != uid):
        read_node(task, name, uid)  # fails, and says what is wrong
        raise Failed(f"The node {name} was created again just now. Nothing was evicted. Take it in again from join.")
    try:
        held = hold.entry_of(node, owner) is not None if owner else hold.is_out(node)
    except hold.Unreadable as error:
        raise Failed(f"{error}. Nothing was evicted. Mend or remove it once you know who holds {name}.") from error
    if not held:
        whose = f"held by {owner}" if owner else "held or cordoned"
        raise Failed(
            f"{name} is not {whose}, so its pods could come back at once. Nothing was evicted. "
            "Hold it first with gpuops.lifecycle.cordon (state: held), then drain it."
        )
    return node


def _add_pdbs(task, mirror):
    try:
        mirror.add("pdbs", paths.pdbs())
    except Forbidden:
        task.warn(
            "PodDisruptionBudgets may not be read, so the drain learns of them only by being refused, and is slower."
        )
        return False
    return True


def _deadline_s(task, pending):
    longest = max((pods.grace_s(one.pod, task.params["grace_period_s"]) for one in pending), default=0)
    wanted = task.params["timeout_s"]
    if wanted is None:
        return longest + ROOM_S
    if wanted < longest:
        task.warn(
            f"timeout_s is {wanted}, but a pod on {task.params['node']} may take {longest} s to end: the drain may fail on it."
        )
    return wanted


def _undecided(node, loop):
    lines = "; ".join(f"{pods.label_of(one.pod)}: {one.sentence}" for one in loop.refused())
    options = sorted({option.partition(" ")[2] for one in loop.refused() for option in one.blocked_by})
    setting = " and ".join(f"{option}=true (in a play: gpuops_{option}=true)" for option in options)
    return (
        f"The drain of {node['metadata']['name']} was not started, because these pods need your decision: {lines}. "
        f"Nothing was evicted. Set {setting} to evict them all the same, or move them away yourself."
    )


def _incomplete(task, loop, deadline_s):
    """What a person needs who finds this in the morning: each pod left, why, what was done, the next command."""
    name = task.params["node"]
    left = loop.left()
    lines = "; ".join(progress.sentence(*item) for item in left)
    done = sum(1 for pod in loop.results() if pod["outcome"] == "evicted")
    hopeless = all(pod["outcome"] != "left" for pod in loop.results())
    when = "cannot be finished" if hopeless else f"did not finish within {deadline_s} s"
    return (
        f"The drain of {name} {when}: {len(left)} of its pods {'is' if len(left) == 1 else 'are'} left: {lines}. "
        f"{done} {'was' if done == 1 else 'were'} evicted; the node stays held and nothing else was done to it. When that "
        "is mended, run the same command again; it goes on where it stopped."
    )
