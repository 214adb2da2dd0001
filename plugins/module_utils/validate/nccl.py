# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what `all_reduce_perf` printed: its text table in every layout, or its JSON file. Pure; judges nothing.

NVIDIA/nccl-tests 2.11 to 2.19.6. The table is read by its header line, never by fixed columns. Sizes are bytes;
bandwidths GB/s (10^9), the bus bandwidth as nccl-tests defines it (PERFORMANCE.md).
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple, Optional

FAILURE = re.compile(
    r"Test (?:CUDA|NCCL) failure \S+ '(?P<text>[^\n]*)'|Test timeout \([^\n]*|Invalid number of GPUs: [^\n]*"
)
FOOTER = re.compile(r"# Out of bounds values\s*:\s*(\d+)\s+(\w+)")
AVERAGE = re.compile(r"# Avg bus bandwidth\s*:\s*(\S+)")
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
    """out_of_bounds: (count, word) of the footer, None without one. bad_rows: lines of the table that cannot be read."""

    rows: tuple
    ranks: int
    out_of_bounds: Optional[tuple]
    average_gbps: Optional[float]
    failure: str
    bad_rows: tuple
    max_bytes: Optional[int]
    version: str


def read(text):
    """Run for the text of one run (or the content of a `-J` file)."""
    stripped = text.lstrip()
    if stripped.startswith("{"):
        try:
            return _from_json(json.loads(stripped))
        except ValueError:
            return Run((), 0, None, None, "", ("the JSON is cut off",), None, "")
    return _from_text(_untagged(text))


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
    failure, footer, average = FAILURE.search(text), FOOTER.search(text), AVERAGE.search(text)
    sizes = SIZES.search(text)
    version = re.search(r"# nccl-tests version (\S+)", text)
    return Run(
        rows=tuple(rows),
        ranks=len(RANK.findall(text)),
        out_of_bounds=(int(footer[1]), footer[2]) if footer else None,
        average_gbps=_number(average[1]) if average else None,
        failure=(failure["text"] or failure[0]) if failure else "",
        bad_rows=tuple(bad),
        max_bytes=int(sizes[2]) if sizes else None,
        version=version[1] if version else "",
    )


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
    return value if value == value and abs(value) != float("inf") else None


def _from_json(raw):
    config = raw.get("config") or {}
    rows, bad = [], []
    for result in raw.get("results") or []:
        out, inside = result.get("out_of_place"), result.get("in_place")
        if not isinstance(out, dict) or not isinstance(inside, dict):
            bad.append(f"size {result.get('size')} has no measurement")
            continue
        numbers = [_number(v) for v in (out.get("bus_bw"), inside.get("bus_bw"), out.get("alg_bw"))]
        wrong = [_number(part.get("nwrong")) for part in (out, inside)]
        if None in numbers or not isinstance(result.get("size"), int):
            bad.append(f"size {result.get('size')} cannot be read")
            continue
        counted = None if None in wrong else int(sum(wrong))
        rows.append(Row(result["size"], numbers[0], numbers[1], counted, numbers[2]))
    bounds = raw.get("out_of_bounds") or {}
    # Misspelt up to 2.17.8 (85ca91d).
    average = raw.get("average_bus_bandwidth") or raw.get("average_bus_bandwidith") or {}
    errors = [str(e) for e in raw.get("errors") or [] if e]
    processes = len(config.get("devices") or []) or 1
    return Run(
        rows=tuple(rows),
        ranks=int(config.get("ngpus") or 0) * int(config.get("nthreads") or 1) * processes,
        out_of_bounds=(bounds.get("count"), "OK" if bounds.get("okay") == "true" else "FAILED") if bounds else None,
        average_gbps=_number(average.get("bandwidth", average.get("bandwidith"))),
        failure="; ".join(errors),
        bad_rows=tuple(bad),
        max_bytes=config.get("maximum_bytes"),
        version=str(raw.get("version") or ""),
    )
