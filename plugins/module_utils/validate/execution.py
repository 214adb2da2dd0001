# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of a diagnostic program, wherever it ran."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Execution(NamedTuple):
    """rc: exit code, None when unknown. problem: why the run itself cannot be trusted ("" if it can); cause: its word."""

    rc: Optional[int]
    stdout: str
    started_at: str
    finished_at: str
    duration_s: float
    problem: str = ""
    cause: str = ""


EXCERPT = 65536


def excerpt(text):
    """The end of a long output: what decides stands there."""
    return text if len(text) <= EXCERPT else "…" + text[-EXCERPT:]
