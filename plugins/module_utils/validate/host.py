# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a diagnostic program on this machine, with a deadline that holds for everything it starts."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import time

from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.execution import Execution

TIMED_OUT = 124


def run(argv, timeout_s):
    """Execution of argv. Failed when the program cannot be started at all."""
    started, clock = _now(), time.monotonic()
    try:
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
        )
    except OSError as error:
        raise Failed(
            f"{argv[0]} cannot be started on this host: {error.strerror}. Nothing was changed. Install it, set `binary` to "
            "its path, or use executor: pod."
        ) from error
    try:
        stdout, _stderr = process.communicate(timeout=timeout_s)
        problem = cause = ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, _stderr = process.communicate()
        problem, cause = f"{argv[0]} did not end within {timeout_s} s", "timeout"
    rc = TIMED_OUT if problem else process.returncode
    return Execution(rc, stdout, started, _now(), round(time.monotonic() - clock, 1), problem, cause)


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
