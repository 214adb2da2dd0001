# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A healthy all_reduce_perf table and JSON file, changed in one place each."""

from __future__ import annotations

import json

import pytest
from jobs import sample

from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import nccl, nccl_judge

HEALTHY = sample("nccl", "01-healthy-h100-8gpu.txt")
LAST_ROW = next(line for line in HEALTHY.split("\n") if line.strip().startswith("8589934592"))


def judged(text, rc=0, ranks=8, limit=450, stderr=""):
    return nccl_judge.judge(nccl.read(text, stderr), rc, ranks, 2**33, limit)


def test_a_table_cut_anywhere_before_its_last_figure_is_unknown():
    end_of_average = HEALTHY.index("361.261")
    for end in range(end_of_average):
        verdict = judged(HEALTHY[:end])
        assert (verdict.word, verdict.cause) in {("unknown", "truncated"), ("unknown", "no_rows")}, (end, verdict)


def test_a_json_file_cut_anywhere_is_unknown():
    text = sample("nccl", "08-json-output.txt").rstrip()
    assert judged(text).word == "pass"
    for end in range(1, len(text)):
        assert judged(text[:end]).word == "unknown", end


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "[0] ", "[0]"])
def test_a_launchers_constant_prefix_is_taken_off(prefix):
    tagged = "\n".join(prefix + line for line in HEALTHY.split("\n"))
    assert judged(tagged).word == "pass"


def test_a_row_in_pieces_is_not_dropped():
    """NVIDIA/nccl #1453: --tag-output cuts rows."""
    half = len(LAST_ROW) // 2
    cut = HEALTHY.replace(LAST_ROW, "[0] " + LAST_ROW[:half] + "\n[0]   " + LAST_ROW[half:])
    assert judged(cut).cause == "truncated"


@pytest.mark.parametrize(
    ("change", "word", "cause"),
    [
        (lambda t: t.replace("0 OK", "0 FAILED"), "fail", "corruption"),
        (lambda t: t.replace("0 OK", "3 OK"), "fail", "corruption"),
        (lambda t: t.replace("0 OK", "0 O"), "unknown", "truncated"),
        (lambda t: t.replace("0 OK", "no idea"), "unknown", "truncated"),
        (lambda t: t.replace("# Avg bus", "# Average bus"), "unknown", "truncated"),
        (lambda t: t.replace("# Avg bus bandwidth    : 361.261", "# Avg bus bandwidth    : -nan"), "pass", ""),
        (lambda t: t.replace(LAST_ROW, LAST_ROW + " 2026-12-01 12:00:00"), "pass", ""),
        (lambda t: t.replace(LAST_ROW, LAST_ROW + " 1 2 3"), "unknown", "truncated"),
        (lambda t: t.replace(LAST_ROW, LAST_ROW[:-2] + "N/A"), "unknown", "unchecked"),
        (lambda t: t.replace(LAST_ROW, LAST_ROW[:-1] + "4"), "fail", "corruption"),
        (lambda t: t.replace(LAST_ROW, ""), "unknown", "size"),
        (lambda t: t.replace("Rank  7", "Rank  7 Rang"), "pass", ""),
        (lambda t: t.replace("#  Rank  7", "#  Rang  7"), "unknown", "ranks"),
        (lambda t: t.replace("busbw", "bandw"), "unknown", "truncated"),
        (lambda t: t.replace(LAST_ROW, LAST_ROW.replace("482.03", "120.10")), "fail", "bandwidth"),
        (lambda t: t.replace(LAST_ROW, LAST_ROW.replace("481.07", "inf")), "unknown", "truncated"),
        (lambda t: t.replace(LAST_ROW, f"{LAST_ROW}\n{LAST_ROW.replace('482.03', '120.10')}"), "fail", "bandwidth"),
        (lambda t: t.replace(LAST_ROW, "node-a:41:52 [3] NCCL INFO comm 0x5 rank 3\n" + LAST_ROW), "pass", ""),
        (lambda t: t.replace(LAST_ROW, "  8589934592 21474node-a:41 NCCL INFO\n" + LAST_ROW), "unknown", "truncated"),
        (lambda t: t + "Invalid number of GPUs: 8 requested but only 7 were found.\n", "fail", "missing"),
        (lambda t: "", "unknown", "no_rows"),
        (lambda t: "{}", "unknown", "no_rows"),
    ],
)
def test_changes_of_the_table(change, word, cause):
    verdict = judged(change(HEALTHY))
    assert (verdict.word, verdict.cause) == (word, cause), verdict


def test_one_rank_measures_nothing():
    """NVIDIA/nccl-tests #287: one GPU, 0.00 GB/s, 0 OK, exit code 0."""
    lines = [line for line in HEALTHY.split("\n") if not any(f"Rank  {i}" in line for i in range(1, 8))]
    verdict = judged("\n".join(lines).replace("481.07", "0.00").replace("482.03", "0.00"), ranks=1)
    assert (verdict.word, verdict.cause) == ("unknown", "ranks")
    assert "one rank" in verdict.reasons[0]


@pytest.mark.parametrize("limit", [None, 0, -1, float("nan"), float("inf")])
def test_what_is_no_limit_passes_nothing(limit):
    """A comparison with NaN is false, so `measured < limit` alone would let everything through."""
    assert (judged(HEALTHY, limit=limit).word, judged(HEALTHY, limit=limit).cause) == ("unknown", "no_limit")


@pytest.mark.parametrize(
    ("text", "word", "cause"),
    [
        ("uncorrectable ECC error encountered", "fail", "hardware"),
        ("system not yet initialized", "unknown", "fabric"),
        ("CUDA-capable device(s) is/are busy or unavailable", "unknown", "busy"),
        ("no kernel image is available for execution on the device", "unknown", "not_run"),
    ],
)
def test_the_text_of_a_failure_tells_its_kind(text, word, cause):
    line = f"gpu-node-a: Test CUDA failure common.cu:1199 '{text}'\n"
    for output in (line, HEALTHY[:1500] + line + " .. gpu-node-a pid 7: Test failure common.cu:863\n"):
        verdict = judged(output, rc=2)
        assert (verdict.word, verdict.cause) == (word, cause)
    assert judged(HEALTHY[:1500], rc=2, stderr=line).cause == cause


def test_the_worst_of_several_failure_lines_counts():
    lines = [
        f"n: Test CUDA failure a.cu:1 '{t}'" for t in ("unhandled system error", "uncorrectable ECC error encountered")
    ]
    assert judged("\n".join(lines), rc=2).cause == "hardware"


def test_wrong_values_count_even_when_the_run_fails_later():
    wrong = HEALTHY.split("# Out of bounds")[0].replace(LAST_ROW, LAST_ROW[:-1] + "4")
    assert judged(wrong + "n: Test NCCL failure a.cu:1 'unhandled system error'", rc=3).cause == "corruption"


@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (lambda d: d.pop("out_of_bounds"), "truncated"),
        (lambda d: d.pop("end_time"), "truncated"),
        (lambda d: d["out_of_bounds"].update(count=None), "truncated"),
        (lambda d: d["out_of_bounds"].update(okay="false"), "corruption"),
        (lambda d: d["results"][-1]["in_place"].update(bus_bw="nan"), "truncated"),
        (lambda d: d["results"][-1]["in_place"].update(nwrong=None), "unchecked"),
        (lambda d: d["results"][-1]["in_place"].update(nwrong=2), "corruption"),
        (lambda d: d["results"][-1].update(out_of_place=None), "truncated"),
        (lambda d: d["results"].pop(), "size"),
        (lambda d: d["results"].append(None), "truncated"),
        (lambda d: d.update(results=5), "no_rows"),
        (lambda d: d.update(errors=["unhandled system error"]), "not_run"),
        (lambda d: d.update(errors=[""]), ""),
        (lambda d: d["config"].update(ngpus=4), "ranks"),
        (lambda d: d.update(config=[]), "ranks"),
    ],
)
def test_changes_of_the_json_file(edit, cause):
    """Since 2.18.5 an aborted run closes its file properly too: valid JSON proves nothing."""
    document = json.loads(sample("nccl", "08-json-output.txt"))
    edit(document)
    verdict = judged(json.dumps(document))
    assert verdict.cause == cause, verdict
    assert (verdict.word == "pass") == (cause == "")
