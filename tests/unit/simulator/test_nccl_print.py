# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the played all_reduce_perf prints: the layout of nccl-tests 2.19.6 as in tests/fixtures/nccl."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from programs import machine, run

from simulator.nodes import nccl

FIXTURES = Path(__file__).parents[2] / "fixtures" / "nccl"
COMMAND = "all_reduce_perf -b 1M -e 8G -f 2 -g 8"
NUMBER = re.compile(r" +\d+\.\d+(?= )")


def sick(kind, **fields):
    found = machine()
    found.inject(kind, fields)
    return found


def rows(text):
    return [line.split() for line in text.splitlines() if re.match(r" +\d", line)]


@pytest.mark.parametrize(("fault", "name"), [(None, "01-healthy-h100-8gpu"), ("weak_nvlink", "02-weak-link")])
def test_every_line_is_the_sample_but_for_its_measured_numbers(fault, name):
    code, text, _printed = run(nccl, COMMAND, sick(fault) if fault else machine())
    lines, sample = text.split("\n"), (FIXTURES / f"{name}.txt").read_text().split("\n")
    assert code == 0
    assert len(lines) == len(sample)
    for line, wanted in zip(lines, sample):
        assert NUMBER.sub("N", line) == NUMBER.sub("N", wanted)
        assert len(line) == len(wanted) or "Avg" in line
        for number, expected in zip(NUMBER.findall(line), NUMBER.findall(wanted)):
            assert float(number) == pytest.approx(float(expected), rel=0.02)


@pytest.mark.parametrize(("fault", "low", "high"), [(None, 475, 485), ("weak_nvlink", 315, 325)])
def test_bandwidth_of_the_largest_size(fault, low, high):
    for seed in range(20):
        on = machine(f"node-{seed}", seed=seed)
        if fault:
            on.inject(fault, {})
        last = rows(run(nccl, COMMAND, on)[1])[-1]
        assert (last[0], low < float(last[7]) < high, low < float(last[11]) < high) == (str(2**33), True, True)


@pytest.mark.parametrize(("gpus", "ratio"), [(2, 1.0), (4, 1.5), (8, 1.75)])
def test_bus_bandwidth_follows_the_number_of_ranks(gpus, ratio):
    code, text, _printed = run(nccl, f"all_reduce_perf -b 1G -e 1G -f 2 -g {gpus}")
    assert (code, text.count("#  Rank")) == (0, gpus)
    assert float(rows(text)[0][7]) == pytest.approx(float(rows(text)[0][6]) * ratio, rel=1e-3)


def test_one_rank_measures_nothing():
    assert rows(run(nccl, "all_reduce_perf -b 1M -e 1M -g 1")[1])[0][7] == "0.00"


def test_rows_appear_one_by_one():
    _code, _text, printed = run(nccl, COMMAND)
    assert sum(len(rows(part)) for part in printed) == 14
    assert max(len(rows(part)) for part in printed) == 1


def test_without_a_factor_sizes_grow_by_steps_and_without_sizes_there_is_one():
    text = run(nccl, "all_reduce_perf -b 1M -e 3M -g 2")[1]
    assert [row[0] for row in rows(text)] == [str(n * 2**20) for n in (1, 2, 3)]
    assert "step: 1048576(bytes)" in text
    assert [row[0] for row in rows(run(nccl, "all_reduce_perf -g 2")[1])] == [str(2**25)]


def test_unchecked_values_are_not_available():
    text = run(nccl, "all_reduce_perf -b 1M -e 1M -g 8 -c 0")[1]
    assert (rows(text)[0][8], rows(text)[0][12]) == ("N/A", "N/A")
    assert "# Out of bounds values : 0 OK" in text


def test_largest_below_smallest_prints_no_row_and_no_number():
    text = run(nccl, "all_reduce_perf -b 2M -e 1M -f 2 -g 8")[1]
    assert (rows(text), "# Avg bus bandwidth    : -nan " in text) == ([], True)


@pytest.mark.parametrize(
    ("prepare", "busy", "code", "text"),
    [
        (lambda m: m.inject("xid", {"xid": 79, "gpu": 4}), False, 5, "Invalid number of GPUs: 8 requested but only 7 "),
        (lambda m: setattr(m, "driver", None), False, 2, "'no CUDA-capable device is detected'"),
        (lambda m: None, True, 2, "'CUDA-capable device(s) is/are busy or unavailable'"),
        (lambda m: m.inject("xid", {"xid": 95, "gpu": 4}), False, 2, "'uncorrectable ECC error encountered'"),
    ],
)  # fmt: skip
def test_a_run_that_fails_has_no_footer(prepare, busy, code, text):
    on = machine()
    prepare(on)
    found, printed, _parts = run(nccl, COMMAND, on, busy)
    assert (found, text in printed, "Out of bounds" in printed) == (code, True, False)


def test_an_ecc_error_outside_the_ranks_is_not_seen():
    assert run(nccl, "all_reduce_perf -b 1M -e 1M -g 2", sick("xid", xid=95, gpu=4))[0] == 0


def test_a_hung_run_prints_its_head_and_no_row():
    code, text, _printed = run(nccl, COMMAND, sick("hung_diag"), limit_s=0.2)
    assert (code, rows(text), text.startswith(nccl.VERSION)) == (None, [], True)


@pytest.mark.parametrize("words", ["-b huge", "-g many"])
def test_what_it_cannot_parse_is_invalid_usage(words):
    assert run(nccl, f"all_reduce_perf {words}")[0] == 6
