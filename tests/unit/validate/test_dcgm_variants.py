# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passing dcgmi documents, changed in one place each: none of them may pass any more."""

from __future__ import annotations

import copy
import json

import pytest
from jobs import sample

from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import dcgm, dcgm_errors, dcgm_judge, dcgmi_diag

# shape: (file, GPUs, key of the diagnostic)
SHAPES = {
    "2": ("21-pass-v2.json", 4, "DCGM GPU Diagnostic"),
    "3": ("01-pass-v3.json", 8, "DCGM GPU Diagnostic"),
    "4": ("02-pass-v4.json", 8, "DCGM Diagnostic"),
}


def judged(document, gpus=8, rc=0, level=2, **more):
    text = document if isinstance(document, str) else json.dumps(document)
    return dcgm_judge.judge(dcgm.read(text), rc, level, gpus, **more)


def load(shape):
    name, gpus, key = SHAPES[shape]
    return json.loads(sample("dcgmi", name)), gpus, key


def every_result(document, key):
    return [
        result
        for category in document[key]["test_categories"]
        for test in category["tests"]
        for result in test["results"]
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("word", ["Fail", "Warn", "Skip", "Not Run", "", "Passed", None, True, ["Pass"]])
def test_no_single_status_may_be_anything_but_pass(shape, word):
    document, gpus, key = load(shape)
    assert judged(document, gpus).word == "pass"
    for result in every_result(document, key):
        result["status"], kept = word, result["status"]
        assert judged(document, gpus).word != "pass"
        result["status"] = kept


@pytest.mark.parametrize("shape", SHAPES)
def test_no_result_test_or_category_may_be_missing(shape):
    document, gpus, key = load(shape)
    categories = document[key]["test_categories"]
    lists = [categories, *(category["tests"] for category in categories)]
    lists += [test["results"] for category in categories for test in category["tests"]]
    for items in lists:
        for i in range(len(items)):
            for left in ([], [None]):  # 3.x leaves null where a GPU did not run
                kept = items[:]
                items[i : i + 1] = left
                assert judged(document, gpus).word != "pass"
                items[:] = kept
    assert judged(document, gpus).word == "pass"


@pytest.mark.parametrize("shape", SHAPES)
def test_an_output_cut_anywhere_never_passes(shape):
    name, gpus, _key = SHAPES[shape]
    text = sample("dcgmi", name).rstrip()
    for end in range(0, len(text) - 1, 3):
        assert judged(text[:end], gpus).word == "unknown", end


@pytest.mark.parametrize("shape", ["3", "4"])
def test_every_shape_names_the_failing_gpu_and_the_machine(shape):
    document, gpus, key = load(shape)
    output = dcgm.read(json.dumps(document))
    assert output.documents[0].driver_version
    assert output.documents[0].version
    assert output.documents[0].gpus[7] == "1650023000008"
    result = every_result(document, key)[-1]
    result["status"] = "Fail"
    result["warnings"] = [{"warning": "mismatch", "error_id": 58, "error_severity": 2}]
    verdict = judged(document, gpus, 205)
    assert (verdict.word, verdict.cause) == ("fail", "hardware")
    assert "GPU 7" in verdict.reasons[0]
    last = dcgmi_diag.gpus_of(dcgm.read(json.dumps(document)).documents[0])[-1]
    assert (last["index"], last["serial"], last["verdict"], last["errors"]) == (
        7,
        "1650023000008",
        "fail",
        ["mismatch"],
    )


def with_error(error_id=None, severity=None, text="something", status="Fail"):
    document, _gpus, key = load("4")
    result = every_result(document, key)[10]
    result["status"] = status
    result["warnings"] = [{"warning": text, "error_id": error_id, "error_severity": severity}]
    return document


@pytest.mark.parametrize(
    ("error_id", "severity", "word", "cause"),
    [
        (58, 2, "fail", "hardware"),
        (120, 2, "fail", "hardware"),
        (85, 6, "fail", "reset"),
        (101, 4, "fail", "xid"),
        (20, 5, "fail", "missing"),
        (62, 4, "fail", "performance"),
        (40, 1, "fail", "environment"),
        (112, 5, "fail", "fabric"),
        (29, 5, "fail", "configuration"),
        (56, 4, "unknown", "busy"),
        (117, 5, "unknown", "not_tested"),
        (130, 4, "unknown", "not_tested"),
        (90, 2, "fail", "hardware"),
        (90, 5, "fail", "configuration"),
        (dcgm_errors.LAST + 1, 1, "fail", "unclassified"),
        (0, None, "fail", "unclassified"),
        (None, None, "fail", "unclassified"),
    ],
)
def test_the_error_id_tells_what_kind_of_failure_it_is(error_id, severity, word, cause):
    verdict = judged(with_error(error_id, severity), rc=226)
    assert (verdict.word, verdict.cause) == (word, cause), verdict


def test_the_worst_of_several_errors_is_the_cause():
    document = with_error(56, 4)
    every_result(document, "DCGM Diagnostic")[12].update(
        status="Fail", warnings=[{"warning": "mismatch", "error_id": 58, "error_severity": 2}]
    )
    verdict = judged(document, rc=205)
    assert (verdict.word, verdict.cause, len(verdict.reasons)) == ("fail", "hardware", 1)


def test_no_id_stands_in_two_classes():
    ids = [error_id for named in dcgm_errors.BY_CLASS.values() for error_id in named]
    assert len(ids) == len(set(ids))
    assert all(1 <= error_id <= dcgm_errors.LAST for error_id in ids)
    assert set(dcgm_errors.BY_CLASS) | {"unclassified"} == set(dcgm_judge.ORDER)


def test_a_warning_on_a_skip_is_neither_pass_nor_fail():
    verdict = judged(with_error(None, None, "not enough free memory", "Skip"))
    assert (verdict.word, verdict.cause) == ("unknown", "incomplete")
    assert "not enough free memory" in verdict.reasons[0]


IDENTITY = [str(1650023000001 + i) for i in range(8)]


def test_identity_comes_before_any_finding():
    """A failure of another machine is no failure of this one."""
    strange = [*IDENTITY[:7], "1650029999999"]
    verdict = judged(with_error(58, 2), rc=205, expected_serials=strange)
    assert (verdict.word, verdict.cause) == ("unknown", "identity")
    assert judged(with_error(58, 2), rc=205, expected_serials=IDENTITY).cause == "hardware"


def test_a_gpu_without_serial_proves_no_identity():
    document, _gpus, _key = load("4")
    del document["entity_groups"][0]["entities"][3]["serial_num"]
    assert judged(document, expected_serials=IDENTITY).cause == "identity"
    assert judged(document).word == "pass"


def test_missing_and_surplus_gpus():
    document, _gpus, key = load("4")
    assert judged(document, gpus=7).cause == "expectation"
    document["entity_groups"][0]["entities"].pop()
    for category in document[key]["test_categories"]:
        for test in category["tests"]:
            test["results"].pop()
    verdict = judged(document, expected_serials=IDENTITY)
    assert (verdict.word, verdict.cause) == ("fail", "missing")
    assert IDENTITY[7] in verdict.reasons[0]


@pytest.mark.parametrize(
    ("word", "verdict"), [("Fail", "fail"), ("Skip", "unknown"), ("", "unknown"), ("Pass", "pass")]
)
def test_a_summary_may_not_contradict_its_results(word, verdict):
    document, _gpus, key = load("4")
    document[key]["test_categories"][1]["tests"][0]["test_summary"]["status"] = word
    assert judged(document).word == verdict


def test_a_warning_in_the_summary_counts_once_and_counts():
    """Up to 4.4 the summary has what no entity has; from 4.5.0 it repeats everything."""
    document, _gpus, key = load("4")
    test = document[key]["test_categories"][1]["tests"][0]
    warning = {"warning": "lost contact", "error_id": 58, "error_severity": 2}
    test["test_summary"] = {"status": "Pass", "warnings": [warning]}
    assert judged(document).word == "unknown"
    test["test_summary"]["status"] = "Fail"
    assert judged(document).cause == "hardware"
    test["results"][0].update(status="Fail", warnings=[warning])
    assert len(judged(document).reasons) == 1


def test_the_gpus_of_3_1_are_counted_without_serials():
    (document,) = dcgm.read(sample("dcgmi", "18-fail-v31-gpu-ids.json")).documents
    assert document.gpus == dict.fromkeys(range(4), "")


def test_a_fall_back_to_the_own_machine_is_called_that():
    assert "machine it ran on" in judged(sample("dcgmi", "14-fallback-to-local.json")).reasons[0]


def test_results_of_gpus_that_are_not_listed_do_not_count():
    document, _gpus, key = load("4")
    for result in every_result(document, key):
        if result["entity_id"] == 7:
            result["entity_id"] = 9
    assert judged(document).cause == "incomplete"


@pytest.mark.parametrize("value", ["7x", 7.0, True, None, "-1", "²"])
def test_a_gpu_number_is_a_number(value):
    document, _gpus, key = load("4")
    for result in every_result(document, key):
        if result["entity_id"] == 7:
            result["entity_id"] = value
    assert judged(document).word == "unknown"


def iterated(documents, overall="Pass"):
    return {"iterations": documents, "Overall Result": overall}


def test_iterations_are_judged_one_by_one():
    document, _gpus, _key = load("4")
    again = [copy.deepcopy(document) for _ in range(3)]
    assert judged(iterated(again), iterations=3).word == "pass"
    assert judged(iterated(again[:2]), iterations=3).cause == "iterations"
    assert judged(iterated([*again[:2], None]), iterations=3).cause == "output"
    assert judged(iterated(again, "Fail"), iterations=3).cause == "contradiction"
    assert judged(iterated(again[:1]), iterations=1).cause == "iterations"
    assert judged(document, iterations=3).cause == "iterations"
    assert judged(iterated([again[0], with_error(58, 2), None]), rc=205, iterations=3).cause == "hardware"
    # A runtime error is printed at once, and the iteration before it is stored in its place.
    trap = json.dumps({"DCGM Diagnostic": {"runtime_error": "in use"}}) + json.dumps(iterated(again))
    assert judged(trap, iterations=3).word == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "null",
        '"Pass"',
        '{"iterations": []}',
        '{"iterations": {}}',
        '{"DCGM Diagnostic": []}',
        "{" * 5000,
        "[{}]",
    ]
    + ['{"a":' * 100000, '{"DCGM Diagnostic": {"test_categories": [1, {"tests": [null, {"results": 5}]}]}}'],
)
def test_other_json_is_unknown(text):
    assert judged(text).word == "unknown"
