# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one shape of a judgement: pass, fail or unknown, with its reasons."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """cause: one word a play can branch on ("hardware", "bandwidth", "timeout", "truncated", …); "" for a pass."""

    word: str
    cause: str = ""
    reasons: tuple = ()


def unknown(cause, *reasons):
    return Verdict("unknown", cause, tuple(reasons))


def fail(cause, *reasons):
    return Verdict("fail", cause, tuple(reasons))


PASS = Verdict("pass")
