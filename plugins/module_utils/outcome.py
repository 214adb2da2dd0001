# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How an operation's error becomes a task's failure: one paragraph that names the thing and the next command."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import NoCluster
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import (
    Forbidden,
    NotFound,
    Unauthorized,
    Unreachable,
)
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed


def failure(task, error):
    """Result dict of a failed task; `changed` says whether anything was written before it failed."""
    result = {"changed": task.changed, "msg": describe(task, error)}
    if isinstance(error, Failed):
        result.update(error.result)
    return result


def describe(task, error):
    """The sentence for a Failed or ApiError."""
    if isinstance(error, Failed):
        return error.message
    node = task.params.get("node")
    what = f"{task.name}{' of ' + node if node else ''}"
    done = (
        "Something was already changed; run the same command again to go on."
        if task.changed
        else "Nothing was changed."
    )
    return f"{what} failed: {sentence(error)} {done}"


def sentence(error):
    """An ApiError with what to do about it."""
    return f"{str(error).rstrip('.')}. {advice(error)}".rstrip()


def advice(error):
    if isinstance(error, NoCluster):
        return ""
    if isinstance(error, Unreachable):
        return "Check the address in your kubeconfig and that the API server is up (kubectl cluster-info)."
    if isinstance(error, Unauthorized):
        return "The credentials of your kubeconfig are not accepted; log in again (kubectl auth whoami)."
    if isinstance(error, Forbidden):
        return (
            "Your account lacks this permission; bind it to the gpuops roles "
            "(ansible-playbook gpuops.lifecycle.install shows them, kubectl auth can-i --list lists yours)."
        )
    if isinstance(error, NotFound) and "lifecycle.gpuops.io" in error.request and not error.details.get("name"):
        return "The NodeRecord resource is not installed; run ansible-playbook gpuops.lifecycle.install first."
    if (
        isinstance(error, NotFound)
        and "leases" in error.request
        and not error.details.get("name", "").startswith(("node-", "pool-"))
    ):
        return "The namespace gpuops-system is not there; run ansible-playbook gpuops.lifecycle.install first."
    return ""
