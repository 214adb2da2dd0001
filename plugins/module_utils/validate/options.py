# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What both diagnostics take, and how they are run and answered."""

from __future__ import annotations

import contextlib

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import host
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.execution import excerpt

SHARED_SPEC = {
    **CONNECTION_SPEC,
    "node": dict(type="str", required=True),
    "executor": dict(type="str", choices=["pod", "host"], default="pod"),
    "timeout_s": dict(type="int"),
    "image_pull_secret": dict(type="str"),
    "runtime_class": dict(type="str"),
    "fail_on_verdict": dict(type="bool", default=True),
    "lock_s": dict(type="int", default=30),
}


def execute(task, tool, argv, gpus, timeout_s):
    """Execution on the node: a Job, or a process of this machine."""
    if task.params["executor"] == "host":
        return host.run(argv, timeout_s)
    # Imported here: the host door runs without a Kubernetes client.
    from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.lock import node_lock
    from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import job, pod

    wanted = job.body(task.params["node"], tool, argv, gpus, timeout_s, task.params["image"], task.params)
    with contextlib.ExitStack() as stack:
        stack.enter_context(node_lock(task, task.params["node"]))
        return pod.run(task, wanted, timeout_s)


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
        "output": excerpt(execution.stdout) if verdict.word != "pass" else "",
        **more,
    }
    if verdict.word != "pass" and task.params["fail_on_verdict"]:
        raise Failed(
            f"{tool} on {task.params['node']}: {verdict.word}: {'; '.join(verdict.reasons)}. The node must not go back to "
            "work on this; see `reasons` and `output`.",
            **result,
        )
    return result


def planned(tool, argv):
    """What check mode answers: nothing was run, so nothing is known."""
    reasons = [f"check mode: would run {' '.join(argv)}"]
    return {"verdict": "unknown", "cause": "check_mode", "reasons": reasons, "tool": tool, "command": argv}
