# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what `dcgmi diag -j` printed, in every shape of DCGM 2, 3 and 4. Pure; judges nothing.

Shapes: NVIDIA/DCGM dcgmi/Diag.cpp of v2.4.7, v3.1.8, v3.2.5, v3.3.9 and v4.x.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Optional

TOP_KEYS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
# Lines that may stand before the document without meaning anything about it.
HARMLESS = ("Defaulted container ",)
# With the host engine out of reach dcgmi tests the machine it runs on, and says so only here.
FELL_BACK = "unable to establish a connection to the specified host"
STATUS_WORDS = ("pass", "skip", "warn", "fail", "not run")


class Problem(NamedTuple):
    """One warning or error: its text, DCGM's id and severity (None where the shape has none)."""

    text: str
    error_id: Optional[int] = None
    severity: Optional[int] = None


class Result(NamedTuple):
    """One test on one GPU (gpu None: on the whole machine). status: lower case, "" when missing or not a known word."""

    gpu: Optional[int]
    status: str
    problems: tuple
    info: str = ""


class Test(NamedTuple):
    """summary: the tool's word for all results together, as Result.status; None where the shape has none."""

    name: str
    category: str
    results: tuple
    summary: Optional[str]


class Document(NamedTuple):
    """gpus: {index: serial or ""} as the output itself names them; None when the shape does not list GPUs."""

    tests: tuple
    runtime_error: str
    version: str
    driver_version: str
    gpus: Optional[dict]


class Output(NamedTuple):
    """documents: one per iteration. problem: why the text as a whole cannot be trusted ("" if it can).

    overall: the tool's own word for all iterations, lower case ("" without iterations).
    """

    documents: tuple
    problem: str
    iterated: bool = False
    overall: str = ""


def read(text):
    """Output for the text of one dcgmi run."""
    decoder, at, found, before = json.JSONDecoder(), 0, [], []
    while True:
        start = text.find("{", at)
        if start < 0:
            break
        try:
            document, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return Output((), "the output is cut off or not JSON")
        before.append(text[at:start])
        found.append(document)
        at = end
    if not found:
        return Output((), "the output is empty" if not text.strip() else "the output is not JSON")
    stray = [line for part in before for line in part.splitlines() if line.strip() and not line.startswith(HARMLESS)]
    if text[at:].strip():
        stray.append(text[at:].strip().splitlines()[0])
    if any(FELL_BACK in line for line in stray):
        return Output((), "the DCGM host engine was not reached, so dcgmi tested the machine it ran on")
    if len(found) > 1:
        return Output((), f"the output holds {len(found)} documents, one was expected")
    if stray:
        return Output((), f"there is unexpected text around the document: {stray[0][:120]}")
    return _iterations(found[0])


def _iterations(raw):
    if "iterations" not in raw:
        return Output((document(raw),), "")
    # An iteration that ended in a runtime error is stored as null, or as a copy of the one before it.
    rounds = raw["iterations"] if isinstance(raw["iterations"], list) else []
    whole = rounds and all(isinstance(r, dict) for r in rounds)
    problem = "" if whole else "an iteration is missing from the output"
    return Output(tuple(document(r) for r in _objects(rounds)), problem, True, _status(raw.get("Overall Result")))


def document(raw):
    """Document of one JSON object, whatever its shape; what is missing stays empty."""
    body = next((raw[key] for key in TOP_KEYS if isinstance(raw.get(key), dict)), {})
    metadata = raw["metadata"] if isinstance(raw.get("metadata"), dict) else raw
    tests = [
        _test(test, str(category.get("category", "")))
        for category in _objects(body.get("test_categories"))
        for test in _objects(category.get("tests"))
    ]
    return Document(
        tests=tuple(tests),
        runtime_error=str(body.get("runtime_error") or ""),
        version=str(metadata.get("version") or body.get("version") or ""),
        driver_version=str(metadata.get("Driver Version Detected") or ""),
        gpus=_gpus(raw),
    )


def _objects(value):
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _test(raw, category):
    results = raw.get("results")
    listed = results if isinstance(results, list) else []
    # 3.x fills by position: a GPU that did not run leaves null.
    read_results = tuple(_result(r) if isinstance(r, dict) else Result(None, "", ()) for r in listed)
    summary = raw.get("test_summary") if isinstance(raw.get("test_summary"), dict) else {}
    extra = tuple(
        problem
        for problem in _problems(summary)
        if not any(problem.text == known.text for result in read_results for known in result.problems)
    )
    if extra:
        read_results += (Result(None, _status(summary.get("status")), extra),)
    name = str(raw.get("name", ""))
    return Test(name, category, read_results, _status(summary["status"]) if "status" in summary else None)


def _result(raw):
    gpu = raw.get("entity_id", raw.get("gpu_id", raw.get("gpu_ids")))
    gpu = _index(gpu) if raw.get("entity_group", "GPU") == "GPU" else None
    info = raw.get("info")
    info = "; ".join(map(str, info)) if isinstance(info, list) else str(info or "")
    return Result(gpu, _status(raw.get("status")), tuple(_problems(raw)), info)


def _status(word):
    text = str(word).strip().lower() if isinstance(word, str) else ""
    return text if text in STATUS_WORDS else ""


def _problems(raw):
    warnings = raw.get("warnings")
    if isinstance(warnings, str):
        return [Problem(warnings, _integer(raw.get("error_id")))] if warnings.strip() else []
    found = []
    for item in warnings if isinstance(warnings, list) else []:
        if isinstance(item, dict):
            text = item.get("warning") or item.get("warnings") or ""
            found.append(Problem(str(text), _integer(item.get("error_id")), _integer(item.get("error_severity"))))
        else:
            found.append(Problem(str(item)))
    return found


def _index(value):
    """A GPU's number: an integer in 4.x, a string of digits in 2.x and 3.x."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return _integer(value)


def _integer(value):
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _gpus(raw):
    """{index: serial} from entity_groups (4.x), GPU Device Serials (3.3) or GPU Device IDs (3.1, 3.2)."""
    if isinstance(raw.get("entity_groups"), list):
        found = {}
        for group in _objects(raw["entity_groups"]):
            if group.get("entity_group") == "GPU":
                for entity in _objects(group.get("entities")):
                    if _index(entity.get("entity_id")) is not None:
                        found[_index(entity["entity_id"])] = str(entity.get("serial_num") or "")
        return found
    serials = raw.get("GPU Device Serials")
    if isinstance(serials, dict):
        return {_index(index): str(serial or "") for index, serial in serials.items() if _index(index) is not None}
    if isinstance(raw.get("GPU Device IDs"), list):
        return dict.fromkeys(range(len(raw["GPU Device IDs"])), "")
    return None
