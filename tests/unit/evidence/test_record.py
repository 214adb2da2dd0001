# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a record says, and the chain it stands in."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.evidence import chain, record

NODE = {
    "metadata": {"name": "a", "uid": "u", "labels": {"nvidia.com/gpu.product": "H100"}},
    "spec": {"providerID": "p"},
    "status": {"nodeInfo": {"systemUUID": "s"}},
}
PARAMS = {"tests": [], "gpus": [], "change": None, "verdict": "unknown", "reason": "", "owner": "gpuops"}


def outcomes(*words):
    return [{"name": f"t{i}", "verdict": word, "reasons": [f"r{i}"]} for i, word in enumerate(words)]


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ([], "unknown"),
        (["pass"], "pass"),
        (["pass", "pass"], "pass"),
        (["pass", "fail"], "fail"),
        (["unknown", "fail"], "fail"),
        (["pass", "unknown"], "unknown"),
        (["pass", None], "unknown"),
        (["pass", ""], "unknown"),
        (["Pass"], "unknown"),
    ],
)
def test_a_qualification_passes_only_when_every_test_does(words, verdict):
    assert record.verdict_of(outcomes(*words)) == verdict
    body = record.body(NODE, "Qualification", "run", {**PARAMS, "tests": outcomes(*words), "verdict": "pass"}, None)
    assert body["spec"]["verdict"] == verdict
    assert bool(body["spec"]["reason"]) is (verdict != "pass")


def test_the_reason_names_the_tests_that_do_not_pass():
    assert record.reason_of(outcomes("pass", "fail", "unknown")) == "t1 fail: r1; t2 unknown: r2"
    assert record.reason_of([]) == "no test was run"


def ledger(length):
    found = []
    for _number in range(length):
        found.append(record.body(NODE, "Fault", "run", PARAMS, found[-1] if found else None))
    return found


def test_names_count_up_and_each_record_names_the_one_before():
    first, second, third = ledger(3)
    assert [r["metadata"]["name"] for r in (first, second, third)] == ["a-000001", "a-000002", "a-000003"]
    assert first["spec"]["previous"] == {}
    assert third["spec"]["previous"] == {"name": "a-000002", "sha256": chain.digest(second["spec"])}
    assert chain.broken([first, second, third]) == []


def test_a_changed_or_missing_record_breaks_the_chain():
    records = ledger(3)
    altered = copy.deepcopy(records)
    altered[1]["spec"]["verdict"] = "pass"
    assert "a-000003" in chain.broken(altered)[0]
    assert "a-000003 follows a-000002" in chain.broken([records[0], records[2]])[0]
    assert chain.broken(records[1:]) != []


def test_a_name_too_long_for_a_label_is_hashed():
    long = {**NODE, "metadata": {**NODE["metadata"], "name": "n" * 200}}
    labels = record.body(long, "Fault", "run", PARAMS, None)["metadata"]["labels"]
    assert all(len(value) <= 63 for value in labels.values())
