# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only proof opens the gate."""

from __future__ import annotations

import pytest
from nodes import entry, node

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import fingerprint, gate

SINCE = "2026-12-01T10:00:00Z"


def record(number=1, verdict="pass", kind="Qualification", at="2026-12-01T11:00:00Z", of=None, uid=None):
    subject = of or node()
    return {
        "metadata": {"name": f"a-{number:06d}", "creationTimestamp": at},
        "spec": {
            "kind": kind,
            "verdict": verdict,
            "node": {"name": "a", "uid": uid or subject["metadata"]["uid"]},
            "fingerprint": fingerprint.of_node(subject),
            "reason": "busbw too low" if verdict == "fail" else "",
        },
    }


@pytest.mark.parametrize(
    ("ledger", "opens", "says"),
    [
        ([], False, "no qualification"),
        ([record()], True, "passes"),
        ([record(verdict="fail")], False, "busbw too low"),
        ([record(verdict="unknown")], False, "says unknown"),
        ([record(1), record(2, "fail")], False, "a-000002 says fail"),
        ([record(1, "fail"), record(2)], True, "a-000002"),
        ([record(1), record(2, "fail", "Fault")], False, "a-000002"),
        ([record(1), record(2, "unknown", "Change")], True, "a-000001"),
        ([record(at="2026-12-01T09:59:59Z")], False, "older than this hold"),
        ([record(at=SINCE)], True, "passes"),
        ([record(of=node(driver="580.95.05"))], False, "another state of compute"),
        ([record(uid="uid-of-the-former-node")], False, "no qualification"),
    ],
)
def test_by_record(ledger, opens, says):
    answer = gate.by_record(node(), entry(since=SINCE), ledger)
    assert answer.open is opens
    assert says in answer.why


def test_a_record_without_a_fingerprint_proves_nothing():
    bare = record()
    del bare["spec"]["fingerprint"]
    assert gate.by_record(node(), entry(since=SINCE), [bare]).open is False


@pytest.mark.parametrize(
    ("held_as", "ledger", "opens"),
    [
        (node(), [], True),
        (node(), [record(verdict="fail")], False),
        (node(), [record(verdict="unknown")], False),
        (node(), [record(verdict="fail", at="2026-12-01T09:00:00Z")], True),
        (node(driver="580.95.05"), [], False),
        (None, [], False),
    ],
)
def test_by_unchanged(held_as, ledger, opens):
    before = fingerprint.of_node(held_as)["domains"] if held_as else None
    assert gate.by_unchanged(node(), entry(since=SINCE, fingerprint=before), ledger).open is opens


def test_an_unknown_input_is_part_of_the_state():
    bare = node()
    del bare["status"]["nodeInfo"]
    assert fingerprint.difference(fingerprint.of_node(node()), fingerprint.of_node(bare)) == ["compute", "identity"]


def test_current_pass_needs_no_hold():
    assert gate.current_pass(node(), [record(at="2020-01-01T00:00:00Z")])["metadata"]["name"] == "a-000001"
    assert gate.current_pass(node(), [record(verdict="fail")]) is None
