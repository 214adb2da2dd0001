# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a NodeRecord says, put together from what is known. Pure."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.evidence import chain
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import fingerprint, keys, records

API_VERSION = "lifecycle.gpuops.io/v1alpha1"
KINDS = ("Qualification", "Reassessment", "Change", "Fault", "Repair", "Retirement", "Waiver")
VERDICTS = ("pass", "fail", "unknown")


def verdict_of(tests):
    """pass only when there are tests and every one passes; one fail makes a fail; everything else is unknown."""
    words = [test.get("verdict") for test in tests]
    if any(word == "fail" for word in words):
        return "fail"
    return "pass" if words and all(word == "pass" for word in words) else "unknown"


def reason_of(tests):
    """One sentence for the tests that do not pass."""
    parts = [
        f"{test.get('name', 'a test')} {test.get('verdict') or 'gave no verdict'}"
        + (f": {'; '.join(test['reasons'])}" if test.get("reasons") else "")
        for test in tests
        if test.get("verdict") != "pass"
    ]
    return "; ".join(parts)[:1000] if tests else "no test was run"


def body(node, kind, run, params, previous):
    """The whole object to create after `previous` (None for the first record of a node of that name)."""
    tests = params["tests"]
    verdict = verdict_of(tests) if kind == "Qualification" else params["verdict"]
    name = node["metadata"]["name"]
    change = params["change"] or {}
    spec = {
        "kind": kind,
        "node": {
            "name": name,
            "uid": node["metadata"]["uid"],
            "providerID": (node.get("spec") or {}).get("providerID") or "",
            "serial": ((node.get("status") or {}).get("nodeInfo") or {}).get("systemUUID") or "",
        },
        "change": {
            "event": change.get("event") or "",
            "from": change.get("from") or "",
            "to": change.get("to") or "",
            "run": run,
        },
        "fingerprint": fingerprint.of_node(node),
        "tests": tests,
        "verdict": verdict,
        "gpus": params["gpus"],
        "reason": params["reason"] or ("" if verdict == "pass" else reason_of(tests)),
        "owner": params["owner"],
        "previous": chain.link(previous),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeRecord",
        "metadata": {
            "name": records.name_of(name, records.sequence_of(previous) + 1 if previous else 1),
            "labels": {
                records.NODE_LABEL: records.label_value(name),
                f"{keys.DOMAIN}/kind": kind,
                f"{keys.DOMAIN}/verdict": verdict,
                f"{keys.DOMAIN}/class": records.label_value(
                    node["metadata"].get("labels", {}).get(keys.PRODUCT_LABEL) or "unknown"
                ),
            },
        },
        "spec": spec,
    }
