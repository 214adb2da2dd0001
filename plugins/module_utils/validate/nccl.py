# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what `all_reduce_perf` printed: its text table in every layout, or its JSON file. Pure; judges nothing.

NVIDIA/nccl-tests 2.11 to 2.19.6. The table is read by its header line, never by fixed columns. Sizes are bytes;
bandwidths GB/s (10^9), the bus bandwidth as nccl-tests defines it (PERFORMANCE.md).
"""

from __future__ import annotations

import json
import math
import re
from typing import NamedTuple, Optional

FAILURE = re.compile(
    r"Test (?:CUDA|NCCL) failure \S+ '(?P<text>[^\n]*)'|Test timeout \([^\n]*|Invalid number of GPUs: [^\n]*"
)
FOOTER = re.compile(r"^# Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)\s", re.MULTILINE)
# The last line with a measurement in every version (its own verdict is not used).
AVERAGE = re.compile(r"^# Avg bus bandwidth\s*:\s*(\S+)", re.MULTILINE)
RANK = re.compile(r"#\s+Rank\s+\d+\s")
TAG = re.compile(r"^\[\d+(?:,\d+)?\](?:<(?P<stream>\w+)>)?:?\s?", re.MULTILINE)
SIZES = re.compile(r"minBytes (\d+) maxBytes (\d+)")


class Row(NamedTuple):
    """wrong: number of wrong elements of both placements, None when not checked."""

    bytes: int
    busbw_out_gbps: float
    busbw_in_gbps: float
    wrong: Optional[int]
    algbw_out_gbps: float

    @property
    def busbw_gbps(self):
        return min(self.busbw_out_gbps, self.busbw_in_gbps)


class Run(NamedTuple):
    """out_of_bounds: (count, word) of the footer, None without one. bad_rows: lines of the table that cannot be read.

    ended: the line after the footer is there too. failures: the texts of failure lines, in the order they were printed.
    """

    rows: tuple
    ranks: int
    out_of_bounds: Optional[tuple]
    average_gbps: Optional[float]
    ended: bool
    failures: tuple
    bad_rows: tuple
    max_bytes: Optional[int]
    version: str


NOTHING = Run((), 0, None, None, False, (), (), None, "")


def read(text, stderr=""):
    """Run for the text of one run (or the content of a `-J` file). stderr: searched for failure lines only."""
    stripped = text.lstrip()
    if stripped.startswith("{"):
        try:
            return _from_json(json.loads(stripped))
        except (ValueError, RecursionError):
            return NOTHING._replace(bad_rows=("the JSON is cut off",))
    run = _from_text(_untagged(text))
    return run._replace(failures=run.failures + _failures(stderr))


def _untagged(text):
    """mpirun --tag-output puts a constant prefix before each line; lines of stderr are other ranks' talk."""
    lines = []
    for line in text.split("\n"):
        tag = TAG.match(line)
        if tag is None:
            lines.append(line)
        elif tag["stream"] in (None, "stdout"):
            lines.append(line[tag.end() :])
    return "\n".join(lines)


def _from_text(text):
    header, rows, bad = None, [], []
    for line in text.split("\n"):
        words = line.replace("#wrong", " #wrong").split()
        if line.startswith("#") and "size" in words and "count" in words:
            header = words[1:]
        elif header is not None and re.match(r"\s*\d+\s+\d+\s", line):
            row = _row(header, line.split())
            if row is None:
                bad.append(line.strip()[:120])
            else:
                rows.append(row)
        elif header is not None and line.strip() and not line.startswith("#") and re.match(r"\s*\d", line):
            bad.append(line.strip()[:120])
    footer, average = FOOTER.search(text), AVERAGE.search(text)
    sizes = SIZES.search(text)
    version = re.search(r"# nccl-tests version (\S+)", text)
    return Run(
        rows=tuple(rows),
        ranks=len(RANK.findall(text)),
        out_of_bounds=(int(footer[1]), footer[2]) if footer else None,
        average_gbps=_number(average[1]) if average else None,
        ended=bool(average),
        failures=_failures(text),
        bad_rows=tuple(bad),
        max_bytes=int(sizes[2]) if sizes else None,
        version=version[1] if version else "",
    )


def _failures(text):
    return tuple(found["text"] or found[0] for found in FAILURE.finditer(text))


def _row(header, words):
    """Row for a line with as many words as the header names columns (or up to two more: time stamps), else None."""
    if not len(header) <= len(words) <= len(header) + 2:
        return None
    at = {}
    for i, name in enumerate(header):
        at.setdefault(name, []).append(i)
    if len(at.get("busbw", ())) != 2 or len(at.get("algbw", ())) != 2:
        return None
    numbers = [_number(words[i]) for i in (*at["busbw"], at["algbw"][0])]
    if None in numbers:
        return None
    wrong = [words[i] for i in at.get("#wrong", ())]
    counts = [int(float(word)) for word in wrong if _number(word) is not None]
    checked = len(wrong) == 2 and len(counts) == 2
    return Row(int(words[0]), numbers[0], numbers[1], sum(counts) if checked else None, numbers[2])


def _number(text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _from_json(raw):
    config = _dict(raw.get("config"))
    rows, bad = [], []
    for result in _list(raw.get("results")):
        row = _json_row(_dict(result))
        if row is None:
            bad.append(f"the result of size {_dict(result).get('size')} cannot be read")
        else:
            rows.append(row)
    bounds = _dict(raw.get("out_of_bounds"))
    # Misspelt up to 2.17.8 (NVIDIA/nccl-tests 85ca91d).
    average = _dict(raw.get("average_bus_bandwidth") or raw.get("average_bus_bandwidith"))
    # One entry per process, not per GPU.
    processes = len(_list(config.get("devices"))) or 1
    counted = isinstance(bounds.get("count"), int)
    return Run(
        rows=tuple(rows),
        ranks=_count(config.get("ngpus")) * (_count(config.get("nthreads")) or 1) * processes,
        out_of_bounds=(bounds["count"], "OK" if bounds.get("okay") == "true" else "FAILED") if counted else None,
        average_gbps=_number(average.get("bandwidth", average.get("bandwidith"))),
        ended="end_time" in raw,
        failures=tuple(str(error) for error in _list(raw.get("errors")) if error),
        bad_rows=tuple(bad),
        max_bytes=config.get("maximum_bytes"),
        version=str(raw.get("version") or ""),
    )


def _json_row(result):
    out, inside = _dict(result.get("out_of_place")), _dict(result.get("in_place"))
    numbers = [_number(v) for v in (out.get("bus_bw"), inside.get("bus_bw"), out.get("alg_bw"))]
    if None in numbers or not isinstance(result.get("size"), int):
        return None
    wrong = [_number(part.get("nwrong")) for part in (out, inside)]
    return Row(result["size"], numbers[0], numbers[1], None if None in wrong else int(sum(wrong)), numbers[2])


def _dict(value):
    return value if isinstance(value, dict) else {}


def _list(value):
    return value if isinstance(value, list) else []


def _count(value):
    return value if isinstance(value, int) else 0
