# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""May this hold be given back? Pure: the node, its records and the hold in, the answer with its reason out.

Only proof releases: a passing qualification of the node as it is now, made after the hold began; or the proof that
nothing was changed since. Everything else is no.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import fingerprint

JUDGING = ("Qualification", "Fault", "Repair")


class Answer(NamedTuple):
    """record: the one that proves it (None for `unchanged`). why: one sentence, also when open is True."""

    open: bool
    why: str
    record: Optional[dict] = None


def by_record(node, entry, records):
    """Is the newest judging record of this node a pass for its present state, made under this hold?"""
    uid, name = node["metadata"]["uid"], node["metadata"]["name"]
    judging = [r for r in records if r["spec"]["kind"] in JUDGING and r["spec"]["node"]["uid"] == uid]
    if not judging:
        return Answer(False, f"{name} has no qualification on record")
    newest = judging[-1]
    record_name, spec = newest["metadata"]["name"], newest["spec"]
    if spec["kind"] != "Qualification" or spec.get("verdict") != "pass":
        reason = spec.get("reason") or "no reason given"
        return Answer(False, f"its newest record {record_name} says {spec.get('verdict')}: {reason}", newest)
    stale = fingerprint.difference(spec.get("fingerprint") or {}, fingerprint.of_node(node))
    if stale:
        return Answer(False, f"record {record_name} was made for another state of {', '.join(stale)}", newest)
    if newest["metadata"]["creationTimestamp"] < entry["since"]:
        return Answer(False, f"record {record_name} is older than this hold", newest)
    return Answer(True, f"record {record_name} passes for the node as it is", newest)


def by_unchanged(node, entry, records):
    """Is the node in the very state in which it was taken, with no failing record since?"""
    name = node["metadata"]["name"]
    before = entry.get("fingerprint")
    if not before:
        return Answer(False, f"the hold on {name} does not say in which state it was taken")
    current = fingerprint.of_node(node)
    changed = fingerprint.difference({"schema": current["schema"], "domains": before}, current)
    if changed:
        return Answer(
            False, f"{name} changed since it was taken ({', '.join(changed)}); only a passing record releases it"
        )
    failed = [
        r["metadata"]["name"]
        for r in records
        if r["metadata"]["creationTimestamp"] >= entry["since"] and r["spec"].get("verdict") in ("fail", "unknown")
    ]
    if failed:
        return Answer(False, f"record {failed[-1]} of {name} does not pass")
    return Answer(True, f"{name} is as it was when it was taken")


def current_pass(node, records):
    """The passing qualification that holds for the node as it is now, or None: does it need to be tested at all?"""
    answer = by_record(node, {"since": ""}, records)
    return answer.record if answer.open else None
