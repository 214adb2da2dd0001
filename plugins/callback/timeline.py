# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: timeline
type: aggregate
short_description: End a failed run with the node, the reason and the next command
version_added: "0.1.0"
author: The gpuops.lifecycle authors (@gpuops)
description:
  - After the recap of a run in which a node failed, prints for each such node what failed and why, so that these are the last
    lines of the output.
requirements:
  - enable it in C(callbacks_enabled)
"""

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuops.lifecycle.timeline"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self._failures = {}

    def v2_runner_on_failed(self, result, ignore_errors=False):
        if not ignore_errors:
            self._keep(result)

    def v2_runner_on_unreachable(self, result):
        self._keep(result)

    def _keep(self, result):
        content = result.result if hasattr(result, "result") else result._result
        host = result.host if hasattr(result, "host") else result._host
        task = result.task if hasattr(result, "task") else result._task
        censored = content.get("censored")
        message = censored or content.get("msg") or "no message"
        self._failures[host.get_name()] = (task.get_name(), str(message))

    def v2_playbook_on_stats(self, stats):
        if not self._failures:
            return
        self._display.display("")
        for host, (task, message) in sorted(self._failures.items()):
            self._display.display(f"{host}: FAILED at: {task}", color="red")
            self._display.display(f"  {' '.join(message.split())}", color="red")
