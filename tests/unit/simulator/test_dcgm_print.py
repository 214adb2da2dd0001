# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the played dcgmi prints: the shapes of DCGM 4 as in tests/fixtures/dcgmi, about the machine it runs on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from programs import machine, run

from simulator.clock import Clock
from simulator.nodes import dcgm

FIXTURES = Path(__file__).parents[2] / "fixtures" / "dcgmi"
LEVEL_2 = ["software", "memory", "pcie"]
LEVEL_3 = ["diagnostic", "nvbandwidth", "memory_bandwidth", "targeted_power", "targeted_stress"]


def sick(kind, **fields):
    found = machine()
    found.inject(kind, fields)
    return found


def by_test(document):
    return {t["name"]: t for c in document["DCGM Diagnostic"]["test_categories"] for t in c["tests"]}


def failures(document):
    return [
        (name, result["entity_id"], warning["error_id"], warning["error_severity"])
        for name, test in by_test(document).items()
        for result in test["results"]
        for warning in result.get("warnings", [])
    ]


def shape(value, place=""):
    """Paths of a document, whatever its values are."""
    if isinstance(value, dict):
        return {path for key, inner in value.items() for path in shape(inner, f"{place}.{key}")}
    if isinstance(value, list):
        return {path for inner in value for path in shape(inner, f"{place}[]")}
    return {f"{place}:{type(value).__name__}"}


@pytest.mark.parametrize(
    "name",
    ["01-pass-v3", "02-pass-v4", "03-fail-memory-v4", "04-skip-counted", "07-persistence-mode-fail", "08-zero-tests",
     "09-fewer-gpus", "10-iterations", "11-runtime-error"],
)  # fmt: skip
def test_documents_are_written_as_jsoncpp_writes_them(name):
    text = (FIXTURES / f"{name}.json").read_text()
    assert dcgm.render(json.loads(text)) == text.rstrip("\n") + "\n"


def test_a_pass_is_the_sample_but_for_serials_and_versions():
    code, text, _printed = run(dcgm, "dcgmi diag -r 2 -j")
    sample = json.loads((FIXTURES / "02-pass-v4.json").read_text())
    document = json.loads(text)
    assert code == 0
    assert document["DCGM Diagnostic"] == sample["DCGM Diagnostic"]
    assert shape(document) == shape(sample)
    assert [e["serial_num"] for e in document["entity_groups"][0]["entities"]] == [g.serial for g in machine().gpus]
    assert document["metadata"] == {"Driver Version Detected": "580.95.05", "version": dcgm.VERSION}


def test_a_memory_failure_is_the_sample_without_the_repetition_of_newer_versions():
    code, text, _printed = run(dcgm, "dcgmi diag -r 2 -j", sick("memory_fail", gpu=5))
    sample = json.loads((FIXTURES / "03-fail-memory-v4.json").read_text())
    del by_test(sample)["memory"]["test_summary"]["warnings"]
    assert code == 205
    assert json.loads(text)["DCGM Diagnostic"] == sample["DCGM Diagnostic"]


def test_serials_differ_between_machines_and_stay_between_runs():
    one, other = ([g.serial for g in machine(name).gpus] for name in ("a", "b"))
    assert not set(one) & set(other)
    assert len(set(one)) == 8
    assert one == [g.serial for g in machine("a", seed=7).gpus]


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("1", ["software"]),
        ("short", ["software"]),
        ("2", LEVEL_2),
        ("medium", LEVEL_2),
        ("3", [*LEVEL_2, *LEVEL_3]),
        ("4", [*LEVEL_2, *LEVEL_3, "memtest", "pulse_test"]),
        ("memory,pcie", ["memory", "pcie"]),
    ],
)
def test_tests_of_a_level(level, names):
    _code, text, _printed = run(dcgm, f"dcgmi diag --run={level} -j")
    assert sorted(by_test(json.loads(text))) == sorted(names)


@pytest.mark.parametrize(
    ("fault", "code", "expected"),
    [
        ({"kind": "memory_fail", "gpu": 3}, 205, [("memory", 3, 58, 2)]),
        ({"kind": "xid", "xid": 95, "gpu": 2}, 205, [("software", 2, 81, 2)]),
        ({"kind": "xid", "xid": 48, "gpu": 0}, 205, [("software", 0, 57, 2)]),
        ({"kind": "xid", "xid": 63, "gpu": 1}, 226, [("software", 1, 85, 6)]),
        ({"kind": "xid", "xid": 119, "gpu": 1}, 226, [("software", 1, 125, 6)]),
        ({"kind": "xid", "xid": 62, "gpu": 1}, 226, [("software", 1, 101, 4)]),
        # an application's fault is not the GPU's
        ({"kind": "xid", "xid": 31, "gpu": 1}, 0, []),
        # a weak NVLink passes the diagnostic: NVIDIA/DCGM#198
        ({"kind": "weak_nvlink", "gpu": 1}, 0, []),
    ],
)
def test_faults(fault, code, expected):
    found = run(dcgm, "dcgmi diag -r 3 -j", sick(**fault))
    assert (found[0], failures(json.loads(found[1]))) == (code, expected)


def test_a_gpu_that_fell_off_the_bus_is_missing():
    code, text, _printed = run(dcgm, "dcgmi diag -r 2 -j", sick("xid", xid=79, gpu=7))
    sample = json.loads((FIXTURES / "09-fewer-gpus.json").read_text())
    assert code == 0
    assert json.loads(text)["DCGM Diagnostic"] == sample["DCGM Diagnostic"]


@pytest.mark.parametrize(("count", "code"), [("gpu:8", 255), ("gpu:7", 0)])
def test_the_expected_number_of_gpus_is_checked(count, code):
    found = run(dcgm, f"dcgmi diag -r 1 -j --expectedNumEntities {count}", sick("xid", xid=79, gpu=7))
    assert found[0] == code


def test_busy_gpus_give_the_sample_of_a_runtime_error():
    code, text, _printed = run(dcgm, "dcgmi diag -r 2 -j", busy=True)
    sample = json.loads((FIXTURES / "11-runtime-error.json").read_text())
    sample["DCGM Diagnostic"]["version"] = dcgm.VERSION
    assert (code, json.loads(text)) == (222, sample)


def without_driver(on):
    on.driver = None


def without_gpus(on):
    for gpu in on.gpus:
        gpu.xids.append(79)


@pytest.mark.parametrize(("prepare", "code"), [(without_driver, 226), (without_gpus, 242)])
def test_without_driver_or_gpus_there_is_no_test(prepare, code):
    on = machine()
    prepare(on)
    found = run(dcgm, "dcgmi diag -r 1 -j", on)
    assert found[0] == code
    assert set(json.loads(found[1])["DCGM Diagnostic"]) == {"runtime_error", "version"}


def test_a_hung_diagnostic_prints_nothing_and_never_ends():
    assert run(dcgm, "dcgmi diag -r 1 -j", sick("hung_diag"), limit_s=0.2) == (None, "", [])


def test_nothing_is_printed_before_the_end():
    async def play():
        printed = []
        playing = asyncio.ensure_future(
            dcgm.play(["dcgmi", "diag", "-r", "2", "-j"], machine(), Clock(100), printed.append)
        )
        await asyncio.sleep(0.3)
        early = list(printed)
        await playing
        return early, len(printed)

    assert asyncio.run(play()) == ([], 1)


def test_iterations_are_each_a_document():
    code, text, _printed = run(dcgm, "dcgmi diag -r 3 -j --iterations 3")
    whole = json.loads(text)
    assert (code, whole["Overall Result"], len(whole["iterations"])) == (0, "Pass", 3)
    assert shape(whole["iterations"][0]) == shape(whole["iterations"][2])
    assert whole["iterations"][0] != whole["iterations"][1], "measured numbers differ from run to run"


def test_iterations_stop_at_the_first_failure():
    code, text, _printed = run(dcgm, "dcgmi diag -r 2 -j --iterations 3", sick("memory_fail", gpu=1))
    whole = json.loads(text)
    sample = json.loads((FIXTURES / "10-iterations.json").read_text())
    assert (code, len(whole["iterations"])) == (205, 1)
    assert {k: v for k, v in whole.items() if k != "iterations"} == {
        k: v for k, v in sample.items() if k != "iterations"
    }


def test_the_same_seed_prints_the_same_and_another_does_not():
    texts = [run(dcgm, "dcgmi diag -r 3 -j", machine(seed=seed))[1] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_without_json_it_is_a_table():
    code, text, _printed = run(dcgm, "dcgmi diag -r 2", sick("memory_fail", gpu=5))
    sample = (FIXTURES / "20-text-table.txt").read_text().splitlines()
    lines = text.splitlines()
    assert code == 205
    assert lines[:5] == sample[:5]
    assert [line for line in lines if "Deployment" in line] == [line for line in sample if "Deployment" in line]
    assert "| memory                    | Fail                                           |" in lines
    assert "|                           | GPU5: Fail                                     |" in lines


@pytest.mark.parametrize("words", ["-r nonsense", "-r 5", "-r 2 --iterations many"])
def test_what_it_cannot_parse_is_a_bad_parameter(words):
    assert run(dcgm, f"dcgmi diag {words} -j")[0] == 255


def test_version():
    code, text, _printed = run(dcgm, "dcgmi --version")
    assert (code, f"Version : {dcgm.VERSION}" in text.splitlines()) == (0, True)
