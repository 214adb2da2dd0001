# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a diagnostic program on this machine, with a deadline that holds for everything it starts."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import tempfile
import time

from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.execution import (
    KILL_AFTER_S,
    OUTPUT_LIMIT,
    TIMED_OUT,
    Execution,
    ending,
)


def run(argv, timeout_s, env=None, kill_after_s=KILL_AFTER_S):
    """Execution of argv, with env on top of this process' environment. Failed when the program cannot be started at all."""
    started, clock = _now(), time.monotonic()
    # Files, not pipes: a child that outlives the program would hold a pipe open, and reading it would never end.
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )
        except OSError as error:
            raise Failed(
                f"{argv[0]} cannot be started on this host: {error.strerror}. Nothing was changed. Install it, set "
                "`binary` to its path, or use executor: pod."
            ) from error
        try:
            rc = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _end(process, kill_after_s)
            rc = TIMED_OUT
        took_s = round(time.monotonic() - clock, 1)
        # A negative code is a signal; shells and containers show it as 128 + signal.
        rc = rc if rc >= 0 else 128 - rc
        cause, problem = ending(rc, argv[0], timeout_s)
        return Execution(rc, _text(stdout), started, _now(), took_s, problem, cause, _text(stderr))


def _end(process, kill_after_s):
    """TERM first: dcgmi passes it on to the host engine, where the diagnostic would go on otherwise."""
    for number, patience_s in ((signal.SIGTERM, kill_after_s), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)


def _text(file):
    file.seek(0)
    return file.read(OUTPUT_LIMIT).decode("utf-8", "replace")


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
