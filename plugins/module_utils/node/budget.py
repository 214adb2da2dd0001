# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many nodes of a pool may be out at once. Pure arithmetic over the pool's nodes.

A pool is the value of one node label, so that overlapping plays count the same nodes (under the same Lease).
Percentages round down, which is the careful side (NVIDIA's upgrade library rounds up); a percentage that comes to
nothing still allows one node while no other is out.
"""

from __future__ import annotations

import re

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import hold, keys


def limit_of(value, total):
    """(nodes, is_percentage) for `3`, "3" or "25%" of total. ValueError names what is allowed."""
    text = str(value).strip()
    if re.fullmatch(r"\d+", text):
        return int(text), False
    if re.fullmatch(r"\d{1,3}%", text) and int(text[:-1]) <= 100:
        return total * int(text[:-1]) // 100, True
    raise ValueError(f"{value!r} is neither a number of nodes nor a percentage such as 25%")


def is_ready(node):
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def why_out(node):
    """Why a node counts as out: "" when it does not."""
    owners = ", ".join(entry["owner"] for entry in hold.entries(node))
    if owners:
        return f"held by {owners}"
    if not is_ready(node):
        return "not Ready"
    if hold.is_cordoned(node):
        return "cordoned by somebody else"
    if (node["metadata"].get("labels") or {}).get(keys.QUALIFICATION_LABEL) == "failed":
        return "failed its validation"
    return ""


def refusal(pool, name, owner, max_unavailable, max_parallel=0):
    """Why `owner` may not take node `name` out of its pool now; "" when it may.

    pool: all nodes with the same pool label, `name` among them. max_parallel: nodes this owner may have out at once,
    failed ones included; 0 for no limit of its own. A node that `owner` already holds costs nothing more.
    """
    me = next(node for node in pool if node["metadata"]["name"] == name)
    if hold.entry_of(me, owner):
        return ""
    others = [node for node in pool if node is not me]
    out = {node["metadata"]["name"]: why_out(node) for node in others}
    out = {other: why for other, why in sorted(out.items()) if why}
    ours = sorted(node["metadata"]["name"] for node in others if hold.entry_of(node, owner))
    if max_parallel and len(ours) + 1 > max_parallel:
        return f"{owner} may have {max_parallel} node(s) out at once and has {', '.join(ours)}"
    allowed, percentage = limit_of(max_unavailable, len(pool))
    if len(out) + 1 <= allowed or (percentage and allowed == 0 and not out):
        return ""
    listed = "; ".join(f"{other} ({why})" for other, why in out.items()) or "none"
    return f"{max_unavailable} of {len(pool)} nodes is {allowed} that may be out; out are: {listed}"
