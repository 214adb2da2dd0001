# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of a diagnostic program, wherever it ran."""

from __future__ import annotations

from typing import NamedTuple, Optional

# What timeout(1) gives to the program to end by itself after TERM: dcgmi stops the run in the host engine then.
KILL_AFTER_S = 30
# Of what a program prints more is not read; what is cut off never passes.
OUTPUT_LIMIT = 4 * 2**20
EXCERPT = 65536

TIMED_OUT, KILLED = 124, 137


class Execution(NamedTuple):
    """rc: exit code, None when unknown. problem: why the run itself cannot be trusted ("" if it can); cause: its word.

    stdout: with a pod both streams as its log mixes them. Times RFC 3339 UTC.
    """

    rc: Optional[int]
    stdout: str
    started_at: str
    finished_at: str
    duration_s: float
    problem: str = ""
    cause: str = ""
    stderr: str = ""


def excerpt(text):
    """The end of a long output: what decides stands there."""
    return text if len(text) <= EXCERPT else "…" + text[-EXCERPT:]


def ending(rc, program, timeout_s):
    """(cause, sentence) when the exit code of `timeout … program` says that the run itself went wrong, else ("", "")."""
    if rc == TIMED_OUT:
        return "timeout", f"{program} did not end within {timeout_s} s"
    if rc == KILLED:
        return "killed", f"{program} was killed: it ignored the end of its time ({timeout_s} s), or memory ran out"
    if rc in (125, 126, 127, 128):
        return "not_started", f"{program} could not be started (exit code {rc}): is it there, and timeout(1)?"
    return "", ""
