# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hash chain of a node's records: each names the one before it and that one's hash. Pure."""

from __future__ import annotations

import hashlib
import json


def digest(spec):
    """sha256 over the canonical JSON of a record's spec (sorted keys, no spaces, UTF-8)."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def link(previous):
    """spec.previous for a record that follows `previous` (None for the first)."""
    if previous is None:
        return {}
    return {"name": previous["metadata"]["name"], "sha256": digest(previous["spec"])}


def broken(ledger):
    """What is wrong with a ledger, oldest record first: [] for an unbroken chain, else one sentence each."""
    problems, before = [], None
    for record in ledger:
        name, said = record["metadata"]["name"], record["spec"].get("previous") or {}
        expected = link(before)
        if said.get("name") != expected.get("name"):
            problems.append(f"{name} follows {said.get('name') or 'nothing'}, not {expected.get('name') or 'nothing'}")
        elif said.get("sha256") != expected.get("sha256"):
            problems.append(f"{name} was written on another {said.get('name')} than the one on the cluster")
        before = record
    return problems
