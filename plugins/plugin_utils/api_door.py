# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API door: an operation run inside the controller, without starting an interpreter or opening a connection to the host.

Cancelling a run means that the controller is killed: then neither `finally` nor `always` runs, and a forked worker lives
on. So before each write the worker looks whether its parent is still the one that started it.
"""

from __future__ import annotations

import os
import socket
import time

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import ApiError
from ansible_collections.gpuops.lifecycle.plugins.module_utils.outcome import failure
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Orphaned, Task
from ansible_collections.gpuops.lifecycle.plugins.plugin_utils.operations import OPERATIONS

# This file is loaded in the controller's parent process; its workers are forked from it.
CONTROLLER = os.getpid()
RUN = f"{socket.gethostname()}-{CONTROLLER}-{int(time.time())}"


def parent_guard():
    """A check for each write: raises once this worker's parent has changed, which means that the controller died."""
    parent = os.getppid()

    def check():
        if os.getppid() != parent:
            raise Orphaned("the controller that started this worker is gone")

    return check


class ApiDoor(ActionBase):
    """Runs the operation named like the task's module; `executor: host` sends the module to the host instead."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        name = self._task.action.rpartition(".")[2]
        spec, operation = OPERATIONS[name]
        params = self._validated(name, spec, task_vars)
        if params.get("executor") == "host":
            return self._execute_module(module_name=f"gpuops.lifecycle.{name}", task_vars=task_vars)
        task = Task(
            name,
            params,
            check_mode=self._task.check_mode,
            diff=self._task.diff,
            run=self._run_id(task_vars),
            warn=self._display.warning,
            progress=self._progress(params, task_vars),
            guard=parent_guard(),
        )
        try:
            result = operation(task)
        except (Failed, ApiError) as error:
            return {"failed": True, **failure(task, error)}
        except Orphaned:
            os._exit(1)
        # Said outright: a result with an `rc` other than 0 counts as failed otherwise, whatever the operation decided.
        return {"failed": False, "changed": task.changed, **result}

    def _validated(self, name, spec, task_vars):
        checked = ArgumentSpecValidator(spec).validate(self._task.args)
        if checked.error_messages:
            raise AnsibleActionFail(f"gpuops.lifecycle.{name}: " + "; ".join(checked.error_messages))
        return checked.validated_parameters

    def _run_id(self, task_vars):
        job = (task_vars or {}).get("awx_job_id") or (task_vars or {}).get("tower_job_id")
        return f"awx-{job}" if job else RUN

    def _progress(self, params, task_vars):
        if self._task.no_log:
            return lambda _text: None
        host = (task_vars or {}).get("inventory_hostname") or params.get("node") or ""
        return lambda text: self._display.display(f"  [{host}] {text}")
