# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `dcgmi` prints on a machine of the simulated cluster, in the shape of DCGM 4 (4.4.1).

Durations are shorter than in the field (level 3 takes about 15 minutes there) so that a demonstration stays watchable.
"""

from __future__ import annotations

import asyncio
import json

VERSION = "4.4.1"
DURATION_S = {1: 5, 2: 60, 3: 180, 4: 600}
LEVELS = {"quick": 1, "short": 1, "medium": 2, "long": 3, "xlong": 4}
# level -> [(category, test)], NVIDIA/DCGM nvvs/src/NvidiaValidationSuite.cpp
TESTS = {1: [("Deployment", "software")]}
TESTS[2] = [*TESTS[1], ("Hardware", "memory"), ("Integration", "pcie")]
TESTS[3] = [
    *TESTS[2],
    ("Hardware", "diagnostic"),
    ("Hardware", "nvbandwidth"),
    ("Stress", "memory_bandwidth"),
    ("Stress", "targeted_stress"),
    ("Stress", "targeted_power"),
]
TESTS[4] = [*TESTS[3], ("Stress", "memtest"), ("Hardware", "pulse_test")]
PASS, ERROR, ISOLATE, IN_USE, BAD_PARAMETER = 0, 226, 205, 222, 255
MEMORY_MISMATCH = {"error_category": 10, "error_id": 58, "error_severity": 2}
UNHEALTHY = {"error_category": 5, "error_id": 101, "error_severity": 4}


def option(argv, *names, default=None):
    """Value of `-x value` or `--long=value`."""
    for i, word in enumerate(argv):
        if word in names and i + 1 < len(argv):
            return argv[i + 1]
        for name in names:
            if word.startswith(f"{name}="):
                return word.split("=", 1)[1]
    return default


async def play(argv, machine, clock, emit, busy=False):
    """Run `dcgmi …` as given; emit(text) prints. busy: another program uses the GPUs. Returns the exit code."""
    if "--version" in argv or "-v" in argv:
        emit(f"Version : {VERSION}\nBuild ID : 30\n")
        return PASS
    level = option(argv, "-r", "--run", default="1")
    level = LEVELS.get(level) or int(level)
    if "hung_diag" in machine.faults:
        await asyncio.Event().wait()
    if busy:
        await clock.sleep(2)
        emit(runtime_error("Unable to run diagnostic: the resource is in use by another client."))
        return IN_USE
    expected = option(argv, "--expectedNumEntities")
    if expected and int(expected.rpartition(":")[2]) != len(machine.visible()):
        emit("Error: the number of entities does not match the expected number.\n")
        return BAD_PARAMETER
    iterations = int(option(argv, "--iterations", default="1"))
    documents, code = [], PASS
    for _round in range(iterations):
        await clock.sleep(DURATION_S[level])
        document, code = result(machine, level)
        documents.append(document)
        if code != PASS:
            break
    if "-j" not in argv and "--json" not in argv:
        emit(as_text(documents[-1]))
    elif iterations > 1:
        overall = "Pass" if code == PASS else "Fail"
        emit(as_json({"iterations": documents, "Overall Result": overall}))
    else:
        emit(as_json(documents[0]))
    return code


def runtime_error(text):
    return as_json({"DCGM Diagnostic": {"runtime_error": text, "version": VERSION}})


def result(machine, level):
    """(document, exit code) of one run on the machine as it is now."""
    categories, code = {}, PASS
    for category, test in TESTS[level]:
        entries = [_entry(machine, gpu, test) for gpu in machine.visible()]
        statuses = {entry["status"] for entry in entries}
        summary = {"status": "Fail" if "Fail" in statuses else "Pass"}
        warnings = [w for entry in entries for w in entry.get("warnings", [])]
        if warnings:
            summary["warnings"] = warnings
            isolate = any(w["error_severity"] == ISOLATE_SEVERITY for w in warnings)
            code = ISOLATE if isolate or code == ISOLATE else ERROR
        categories.setdefault(category, []).append({"name": test, "results": entries, "test_summary": summary})
    document = {
        "DCGM Diagnostic": {
            "test_categories": [{"category": name, "tests": tests} for name, tests in categories.items()]
        },
        "entity_groups": [
            {
                "entities": [
                    {"device_id": "2330", "entity_id": gpu.index, "serial_num": gpu.serial} for gpu in machine.visible()
                ],
                "entity_group": "GPU",
                "entity_group_id": 1,
            }
        ],
        "metadata": {"Driver Version Detected": machine.driver or "", "version": VERSION},
    }
    return document, code


ISOLATE_SEVERITY = 2


def _entry(machine, gpu, test):
    entry = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu.index, "status": "Pass"}
    sick = machine.faults.get("memory_fail")
    if test == "memory" and sick is not None and sick["gpu"] == gpu.index:
        text = f"Found memory mismatch on GPU {gpu.index}: pattern 0xaaaaaaaa at 0x7f3a. Run a field diagnostic on the GPU."
        return {**entry, "status": "Fail", "warnings": [{**MEMORY_MISMATCH, "warning": text}]}
    if test in ("diagnostic", "targeted_stress") and not gpu.healthy:
        text = f"Detected XID {gpu.xids[-1] if gpu.xids else 0} for GPU {gpu.index}."
        return {**entry, "status": "Fail", "warnings": [{**UNHEALTHY, "warning": text}]}
    if test == "targeted_power":
        watts = 690 + 8 * machine.noise("power", gpu.index)
        entry["info"] = [f"Max power: {watts:.1f} W", "Warnings may indicate thermal or power limits."][:1]
    if test == "memory_bandwidth":
        entry["info"] = [f"Triad bandwidth: {2450 * (1 + 0.008 * machine.noise('triad', gpu.index)):.1f} GB/s"]
    return entry


def as_json(document):
    """Tab-indented with ` : `, as jsoncpp's StyledStreamWriter prints it."""
    return json.dumps(document, indent="\t", separators=(",", " : "), sort_keys=True) + "\n"


def as_text(document):
    lines = [
        "Successfully ran diagnostic for group.",
        "+---------------------------+------------------------------------------------+",
    ]
    for category in document["DCGM Diagnostic"]["test_categories"]:
        for test in category["tests"]:
            lines.append(f"| {test['name']:<25} | {test['test_summary']['status']:<46} |")
    return "\n".join([*lines, lines[1]]) + "\n"
