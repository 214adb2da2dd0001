# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both diagnostics take, and how they are run and answered."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import host
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.execution import excerpt
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.verdict import unknown

SHARED_SPEC = {
    **CONNECTION_SPEC,
    "node": dict(type="str", required=True),
    "executor": dict(type="str", choices=["pod", "host"], default="pod"),
    "timeout_s": dict(type="int"),
    "image_pull_secret": dict(type="str", no_log=False),
    "runtime_class": dict(type="str"),
    "fail_on_verdict": dict(type="bool", default=True),
    "lock_s": dict(type="int", default=30),
}


def execute(task, tool, argv, gpus, timeout_s, env=None):
    """Execution on the node: a Job, or a process of this machine. env: {name: text} to set for the program."""
    if task.params["executor"] == "host":
        return host.run(argv, timeout_s, env or {})
    # Imported here: the host door runs without a Kubernetes client.
    from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.lock import node_lock
    from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import job, pod

    node = find_node(task)
    wanted = job.body(node, tool, argv, gpus, timeout_s, task.params["image"], task.params, env or {}, task.run)
    with node_lock(task, task.params["node"]):
        return pod.run(task, wanted, timeout_s)


def find_node(task):
    """The Node. A Job for a node that is not there would only wait."""
    from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
    from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import NotFound

    name = task.params["node"]
    try:
        return task.kube.get(paths.node(name))
    except NotFound as error:
        raise Failed(
            f"There is no node {name} in this cluster. Nothing was run. kubectl get nodes lists them."
        ) from error


def time_limit(params, default_s):
    """Seconds the tool may take."""
    if params["timeout_s"] is None:
        return default_s
    if params["timeout_s"] < 1:
        raise Failed("timeout_s must be at least 1. Nothing was run.")
    return params["timeout_s"]


def settle(verdict, execution):
    """A run that went wrong proves nothing; yet what it showed of a fault before that stays a fail."""
    if execution.problem and verdict.word != "fail":
        return unknown(execution.cause, execution.problem)
    return verdict


def answer(task, tool, verdict, execution, argv, **more):
    """The operation's result; with fail_on_verdict anything but a pass fails the task."""
    result = {
        "verdict": verdict.word,
        "cause": verdict.cause,
        "reasons": list(verdict.reasons),
        "tool": tool,
        "command": argv,
        "rc": execution.rc,
        "started_at": execution.started_at,
        "finished_at": execution.finished_at,
        "duration_s": execution.duration_s,
        "output": excerpt(execution.stdout + execution.stderr) if verdict.word != "pass" else "",
        **more,
    }
    if verdict.word != "pass" and task.params["fail_on_verdict"]:
        raise Failed(
            f"{tool} on {task.params['node']}: {verdict.word}: {'; '.join(verdict.reasons)}. The node must not go back to "
            "work on this; see `reasons` and `output`.",
            **result,
        )
    return result


def planned(task, tool, argv):
    """What check mode answers: nothing was run, so nothing is known."""
    if task.params["executor"] == "pod":
        find_node(task)
    reasons = [f"check mode: would run {' '.join(argv)}"]
    return {"verdict": "unknown", "cause": "check_mode", "reasons": reasons, "tool": tool, "command": argv}
