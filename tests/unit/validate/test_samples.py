# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded shapes of tool output against the verdict each must get."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import dcgm, dcgm_judge, nccl, nccl_judge

FIXTURES = Path(__file__).parents[2] / "fixtures"
EIGHT = [f"165002300000{i}" for i in range(1, 9)]

# file, exit codes to feed, level, GPUs, iterations, verdict, cause
DCGMI = [
    ("01-pass-v3.json", [0], 2, 8, 1, "pass", ""),
    ("02-pass-v4.json", [0], 2, 8, 1, "pass", ""),
    ("03-fail-memory-v4.json", [205], 2, 8, 1, "fail", "hardware"),
    ("04-skip-counted.json", [0], 3, 8, 1, "unknown", "incomplete"),
    ("05-truncated.json", [0, 124], 2, 8, 1, "unknown", "output"),
    ("06-leading-lines.json", [0], 2, 8, 1, "pass", ""),
    ("07-persistence-mode-fail.json", [226], 2, 8, 1, "fail", "configuration"),
    ("08-zero-tests.json", [242, 0], 2, 8, 1, "unknown", "zero_tests"),
    ("09-fewer-gpus.json", [0], 2, 8, 1, "fail", "missing"),
    ("09-fewer-gpus.json", [0], 2, None, 1, "unknown", "expectation"),
    ("10-iterations.json", [205], 2, 2, 3, "fail", "hardware"),
    ("11-runtime-error.json", [222], 2, 8, 1, "unknown", "not_run"),
    ("14-fallback-to-local.json", [0], 2, 8, 1, "unknown", "output"),
    ("17-hang-empty.json", [124, 137, 0], 2, 8, 1, "unknown", "output"),
    ("18-fail-v31-gpu-ids.json", [226], 2, 4, 1, "fail", "hardware"),
    ("19-v325-root-keys-warn.json", [226], 2, 4, 1, "fail", "configuration"),
    ("20-text-table.txt", [226, 0], 2, 4, 1, "unknown", "output"),
    ("21-pass-v2.json", [0], 2, 4, 1, "pass", ""),
]
# file, exit code, ranks, required bytes, limit, verdict, cause
NCCL = [
    ("01-healthy-h100-8gpu.txt", 0, 8, 2**33, 450, "pass", ""),
    ("02-weak-link.txt", 0, 8, 2**33, 450, "fail", "bandwidth"),
    ("03-wrong-values.txt", 7, 8, 2**33, 450, "fail", "corruption"),
    ("04-out-of-bounds-failed-old.txt", 1, 8, 2**33, 450, "fail", "corruption"),
    ("05-check-0-na.txt", 0, 8, 2**33, 450, "unknown", "unchecked"),
    ("06-nccl-failure.txt", 3, 8, 2**33, 450, "unknown", "not_run"),
    ("07-truncated.txt", 124, 8, 2**33, 450, "unknown", "truncated"),
    ("08-json-output.txt", 0, 8, 2**33, 450, "pass", ""),
    ("11-json-misspelt-keys-validation-off.txt", 0, 8, 2**33, 450, "unknown", "unchecked"),
    ("13-fabric-not-ready.txt", 2, 8, 2**33, 450, "unknown", "fabric"),
    ("14-uncorrectable-ecc.txt", 2, 8, 2**33, 450, "fail", "hardware"),
    ("15-mpirun-tagged.txt", 0, 2, 2**33, 340, "pass", ""),
]


def text_of(folder, name):
    return (FIXTURES / folder / name).read_text()


@pytest.mark.parametrize(("name", "codes", "level", "gpus", "iterations", "word", "cause"), DCGMI)
def test_dcgmi_samples(name, codes, level, gpus, iterations, word, cause):
    for rc in codes:
        verdict = dcgm_judge.judge(dcgm.read(text_of("dcgmi", name)), rc, level, gpus, iterations=iterations)
        assert (verdict.word, verdict.cause) == (word, cause), verdict
        assert verdict.reasons or word == "pass"


@pytest.mark.parametrize(("name", "rc", "ranks", "required", "limit", "word", "cause"), NCCL)
def test_nccl_samples(name, rc, ranks, required, limit, word, cause):
    verdict = nccl_judge.judge(nccl.read(text_of("nccl", name)), rc, ranks, required, limit)
    assert (verdict.word, verdict.cause) == (word, cause), verdict
    assert verdict.reasons or word == "pass"


def judge_v4(text, rc=0, **more):
    return dcgm_judge.judge(dcgm.read(text), rc, 2, 8, **more)


def test_a_cut_document_never_passes():
    text = text_of("dcgmi", "02-pass-v4.json").rstrip()
    for end in range(len(text) - 1):
        assert judge_v4(text[:end]).word != "pass", end


def test_no_status_word_but_pass_passes():
    text = text_of("dcgmi", "02-pass-v4.json")
    for word in ("Fail", "Warn", "Skip", "Not Run", "", "Passed", "0"):
        document = json.loads(text)
        test = document["DCGM Diagnostic"]["test_categories"][1]["tests"][0]
        test["results"][3]["status"] = word
        assert judge_v4(json.dumps(document)).word != "pass", word


def test_a_missing_field_or_an_empty_list_never_passes():
    text = text_of("dcgmi", "02-pass-v4.json")

    def without(edit):
        document = json.loads(text)
        edit(document["DCGM Diagnostic"]["test_categories"])
        return judge_v4(json.dumps(document)).word

    assert without(lambda c: c.clear()) == "unknown"
    assert without(lambda c: c.pop()) == "unknown"
    assert without(lambda c: c[1].pop("tests")) == "unknown"
    assert without(lambda c: c[1]["tests"][0].pop("results")) == "unknown"
    assert without(lambda c: c[1]["tests"][0]["results"].pop()) == "unknown"
    assert without(lambda c: c[1]["tests"][0]["results"][0].pop("status")) == "unknown"
    assert without(lambda c: c[1]["tests"][0]["results"].__setitem__(0, None)) == "unknown"


def test_a_warning_on_a_pass_is_not_a_pass():
    """NVIDIA/DCGM #284: an allocation error recorded, status Pass."""
    document = json.loads(text_of("dcgmi", "02-pass-v4.json"))
    result = document["DCGM Diagnostic"]["test_categories"][1]["tests"][0]["results"][0]
    result["warnings"] = [{"warning": "allocation failed", "error_id": 56, "error_severity": 4}]
    assert judge_v4(json.dumps(document)).word == "unknown"


def test_all_passing_with_an_error_code_is_a_contradiction():
    assert judge_v4(text_of("dcgmi", "02-pass-v4.json"), rc=226).cause == "contradiction"


def test_a_lower_level_than_asked_does_not_pass():
    assert dcgm_judge.judge(dcgm.read(text_of("dcgmi", "02-pass-v4.json")), 0, 3, 8).word == "unknown"


def test_serials_must_be_those_of_the_machine():
    text = text_of("dcgmi", "02-pass-v4.json")
    assert judge_v4(text, expected_serials=EIGHT).word == "pass"
    others = [*EIGHT[:7], "1650029999999"]
    assert judge_v4(text, expected_serials=others).cause == "identity"
    shapeless = dcgm_judge.judge(dcgm.read(text_of("dcgmi", "21-pass-v2.json")), 0, 2, 4, EIGHT[:4])
    assert shapeless.cause == "identity"


def test_two_documents_are_not_one():
    text = text_of("dcgmi", "02-pass-v4.json")
    assert judge_v4(text + text).word == "unknown"
    assert judge_v4("something else\n" + text).word == "unknown"
    assert judge_v4(text + "Segmentation fault\n").word == "unknown"


def test_lost_gpus_are_a_fail_whatever_is_printed():
    assert judge_v4("", rc=238).word == "fail"


def test_a_cut_table_never_passes():
    text = text_of("nccl", "01-healthy-h100-8gpu.txt")
    footer = text.index("# Out of bounds")
    for end in range(0, footer + 20, 7):
        assert nccl_judge.judge(nccl.read(text[:end]), 0, 8, 2**33, 450).word != "pass", end


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda t: t, ""),
        (lambda t: t.replace("     8589934592", "node-a:1:2 [0] NCCL INFO hello\n     8589934592"), ""),
        (lambda t: t.replace("361.261", "nan"), ""),
        (lambda t: t.replace("#  Rank  7", "#  Rang  7"), "ranks"),
        (lambda t: "\n".join(line for line in t.split("\n") if not line.startswith("  8589934592")), "size"),
        (lambda t: t.replace("481.07       0", "481.07     N/A"), "unchecked"),
        (lambda t: t.replace("481.07       0", "nan       0"), "truncated"),
        (lambda t: t.replace("  274.90  481.07", "  481.07  481.07"), "ranks"),
    ],
)
def test_variants_of_a_healthy_table(change, cause):
    verdict = nccl_judge.judge(nccl.read(change(text_of("nccl", "01-healthy-h100-8gpu.txt"))), 0, 8, 2**33, 450)
    assert verdict.cause == cause, verdict
    assert (verdict.word == "pass") == (cause == "")


def test_without_a_limit_bandwidth_cannot_pass():
    run = nccl.read(text_of("nccl", "01-healthy-h100-8gpu.txt"))
    assert nccl_judge.judge(run, 0, 8, 2**33, None).cause == "no_limit"
    assert nccl_judge.judge(run, 1, 8, 2**33, 450).cause == "contradiction"


@pytest.mark.parametrize("module", ["dcgmi_diag", "all_reduce_perf"])
def test_every_cause_is_documented(module):
    root = Path(__file__).parents[3] / "plugins"
    judge = "dcgm_judge" if module == "dcgmi_diag" else "nccl_judge"
    sources = "".join((root / f"module_utils/validate/{name}.py").read_text() for name in (judge, "pod", "execution"))
    causes = set(
        re.findall(
            r'(?:unknown|fail)\(\s*"(\w+)"|(?:End\(None|return rc, ""|= None, ""), "(\w+)"|return "(\w+)", f"', sources
        )
    )
    causes = {word for found in causes for word in found if word} | {"check_mode"}
    if module == "dcgmi_diag":
        causes |= set(dcgm_judge.ORDER)
    assert {"timeout", "vanished", "no_log", "not_started", "api"} <= causes
    documented = set(re.findall(r"V\((\w+)\)", (root / f"modules/{module}.py").read_text()))
    assert causes <= documented
