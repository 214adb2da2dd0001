# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many nodes may be out."""

from __future__ import annotations

import pytest
from nodes import entry, node

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import budget

FAILED = {"lifecycle.gpuops.io/qualification": "failed"}


@pytest.mark.parametrize(
    ("value", "total", "nodes"),
    [("25%", 4, 1), ("25%", 7, 1), ("10%", 4, 0), ("100%", 4, 4), ("0%", 4, 0), ("3", 4, 3), (2, 4, 2), ("0", 9, 0)],
)
def test_percentages_round_down(value, total, nodes):
    assert budget.limit_of(value, total)[0] == nodes


@pytest.mark.parametrize("value", ["", "-1", "a", "101%", "2.5", "%", "25 %", None])
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match="neither"):
        budget.limit_of(value, 4)


def pool(**changed):
    return [node(name, **changed.get(name, {})) for name in ("a", "b", "c", "d")]


@pytest.mark.parametrize(
    ("changed", "max_unavailable", "max_parallel", "says"),
    [
        ({}, "25%", 0, ""),
        ({}, "10%", 0, ""),
        ({}, "0", 0, "0 that may be out"),
        ({"b": {"cordoned": True}}, "25%", 0, "b (cordoned by somebody else)"),
        ({"b": {"cordoned": True}}, "10%", 0, "b (cordoned"),
        ({"b": {"cordoned": True}}, "2", 0, ""),
        ({"b": {"ready": False}}, "25%", 0, "b (not Ready)"),
        ({"b": {"labels": FAILED}}, "25%", 0, "b (failed its validation)"),
        ({"b": {"holds": [entry("other")], "cordoned": True}}, "1", 0, "b (held by other)"),
        ({"b": {"holds": [entry()], "cordoned": True}}, "4", 1, "may have 1 node(s) out at once and has b"),
        ({"b": {"holds": [entry("other")], "cordoned": True}}, "4", 1, ""),
        ({"b": {"holds": [entry()], "cordoned": True}, "a": {"holds": [entry()], "cordoned": True}}, "1", 1, ""),
    ],
    ids=[
        "nothing is out", "a percentage that comes to nothing allows one", "a plain zero freezes", "a human's cordon counts",
        "it also uses up the one of a small percentage", "room for one more", "NotReady counts", "failed counts",
        "another owner's hold counts", "own limit", "own limit does not count others", "what is held already costs nothing",
    ],
)  # fmt: skip
def test_refusal(changed, max_unavailable, max_parallel, says):
    why = budget.refusal(pool(**changed), "a", "gpuops", max_unavailable, max_parallel)
    assert (says in why) if says else why == ""
