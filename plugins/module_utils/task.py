# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operation is given, whichever door it is called through.

An operation is a function `run(task) -> dict` with an `ARGUMENT_SPEC` beside it. It reads `task.params`, acts through
`task.kube`, sets `task.changed` as soon as something was written, and ends by returning its result or raising `Failed`.
"""

from __future__ import annotations

import time
from typing import Any, Callable


class Failed(Exception):
    """The operation's own failure: a sentence that names the object and the next step, and what is known so far."""

    def __init__(self, message: str, **result: Any):
        super().__init__(message)
        self.message = message
        self.result = result


class Orphaned(Exception):
    """The controller that started this process is gone; nothing may be written any more."""


class Task:
    """name: the operation ("drain"). run: id of the playbook run. progress: shows a live line (known-safe text only)."""

    def __init__(
        self,
        name: str,
        params: dict,
        check_mode: bool = False,
        diff: bool = False,
        run: str = "",
        warn: Callable[[str], None] = lambda _text: None,
        progress: Callable[[str], None] = lambda _text: None,
        guard: Callable[[], None] | None = None,
        kube: Any = None,
    ):
        self.name = name
        self.params = params
        self.check_mode = check_mode
        self.diff = diff
        self.run = run
        self.warn = warn
        self.progress = progress
        self._guards = [guard] if guard else []
        self.changed = False
        self.monotonic = time.monotonic
        self.sleep = time.sleep
        self._kube = kube

    def guard(self) -> None:
        """Asked before each write: raises when this run must not write any more."""
        for check in list(self._guards):
            check()

    def add_guard(self, check: Callable[[], None]) -> None:
        self._guards.append(check)

    def remove_guard(self, check: Callable[[], None]) -> None:
        self._guards.remove(check)

    @property
    def kube(self) -> Any:
        """The cluster, connected on first use, so that work on a host needs no Kubernetes client."""
        if self._kube is None:
            from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Kube

            self._kube = Kube(self.params, guard=self.guard, read_only=self.check_mode)
        return self._kube
