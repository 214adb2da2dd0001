# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `dcgmi` prints on a machine of the simulated cluster, in the shape of DCGM 4.4.1.

Durations are shorter than in the field (level 2 takes 2 to 10 minutes there, level 3 about 15, level 4 45 to 135) so that
a demonstration stays watchable. As in the field, the document is printed in one go at the end, so a hung run leaves none.
"""

from __future__ import annotations

import asyncio
import json

VERSION = "4.4.1"
DURATION_S = {1: 5, 2: 60, 3: 180, 4: 600}
LEVELS = {"quick": 1, "short": 1, "medium": 2, "long": 3, "xlong": 4, "1": 1, "2": 2, "3": 3, "4": 4}
# (category, test, lowest level): NVIDIA/DCGM nvvs/src/NvidiaValidationSuite.cpp FillTestVectors, nvvs/include/PluginStrings.h.
# Left out as where their packages are not installed: nccl_tests, eud, cpu_eud, rist.
TESTS = (
    ("Deployment", "software", 1),
    ("Hardware", "memory", 2),
    ("Hardware", "diagnostic", 3),
    ("Hardware", "nvbandwidth", 3),
    ("Hardware", "pulse_test", 4),
    ("Integration", "pcie", 2),
    ("Stress", "memory_bandwidth", 3),
    ("Stress", "memtest", 4),
    ("Stress", "targeted_power", 3),
    ("Stress", "targeted_stress", 3),
)
# Exit code of dcgmi: the dcgmReturn_t as the shell sees it.
PASS, ERROR, ISOLATE, IN_USE, BAD_PARAMETER, NO_DATA = 0, 226, 205, 222, 255, 242
ISOLATE_SEVERITY = 2
MEMORY_MISMATCH = (58, 10, ISOLATE_SEVERITY, "A memory mismatch was detected on GPU {gpu}, but no error was reported by CUDA "
                   "or NVML. Run a field diagnostic on the GPU.")  # fmt: skip
# Xid of the kernel log -> (error_id, error_category, error_severity, text): NVIDIA/DCGM dcgmlib/dcgm_errors.h.
BY_XID = {
    48: (57, 10, ISOLATE_SEVERITY, "CUDA could not be used on GPU {gpu} because of an uncorrectable double bit error."),
    63: (85, 10, 6, "GPU {gpu} has uncorrectable memory errors and row remappings are pending. Reset the GPU."),
    64: (80, 10, 6, "GPU {gpu} had a row remap failure. Run a field diagnostic on the GPU."),
    74: (14, 11, 4, "GPU {gpu} has an NVLink that is down. Run a field diagnostic on the GPU."),
    94: (131, 10, 1, "GPU {gpu} had a contained error (XID 94). Restart the affected application."),
    95: (81, 10, ISOLATE_SEVERITY, "GPU {gpu} had an uncontained error (XID 95). Drain the GPU and reset it."),
    119: (125, 15, 6, "GPU {gpu} needs a reset: its recovery action is GPU_RESET."),
    120: (125, 15, 6, "GPU {gpu} needs a reset: its recovery action is GPU_RESET."),
}
ANY_XID = (101, 5, 4, "Detected XID {xid} for GPU {gpu}. Verify that no other program affected the test.")
WIDTHS = 27, 48


def option(argv, *names, default=None):
    """Value of `-x value` or `--long=value`."""
    for i, word in enumerate(argv):
        if word in names and i + 1 < len(argv):
            return argv[i + 1]
        for name in names:
            if word.startswith(f"{name}="):
                return word.split("=", 1)[1]
    return default


def chosen(text):
    """([(category, test)], duration in simulated seconds) of -r's value: a level or test names. ValueError otherwise."""
    if text in LEVELS:
        level = LEVELS[text]
        return [(category, test) for category, test, lowest in TESTS if lowest <= level], DURATION_S[level]
    wanted = text.split(",")
    for name in wanted:
        if name not in [test for _category, test, _lowest in TESTS]:
            raise ValueError(f'Error: requested test "{name}" was not found among possible test choices.\n')
    found = [(category, test, lowest) for category, test, lowest in TESTS if test in wanted]
    return [(category, test) for category, test, _lowest in found], max(DURATION_S[low] for *_rest, low in found) / 2


async def play(argv, machine, clock, emit, busy=False):
    """Run `dcgmi …` as given; emit(text) prints. busy: another program uses the GPUs. Returns the exit code."""
    if "--version" in argv or "-v" in argv:
        emit(f"\nVersion : {VERSION}\nBuild ID : 30\nBuild Date : 2025-09-09\nBuild Type : Release\n")
        return PASS
    as_json = "-j" in argv or "--json" in argv
    try:
        tests, duration_s = chosen(option(argv, "-r", "--run", default="1"))
        iterations = int(option(argv, "--iterations", default="1"))
    except ValueError as error:
        emit(str(error))
        return BAD_PARAMETER
    refusal = await _refused(argv, machine, clock, busy)
    if refusal:
        code, text = refusal
        emit(render({"DCGM Diagnostic": {"runtime_error": text, "version": VERSION}}) if as_json else text)
        return code
    documents, code = [], PASS
    while len(documents) < iterations and code == PASS:
        await clock.sleep(duration_s)
        document, code = result(machine, tests, len(documents))
        documents.append(document)
    if not as_json:
        emit("".join(as_text(document) for document in documents))
    elif iterations > 1:
        emit(render(together(documents, code)))
    else:
        emit(render(documents[0]))
    return code


async def _refused(argv, machine, clock, busy):
    """(exit code, text) when no test can run; does not return at all when the diagnostic hangs."""
    if machine.driver is None:
        why = "Failed to initialize NVML: Driver Not Loaded"
        return (
            ERROR,
            f"Error: Unable to complete diagnostic. Return: (-30) : The NVVS diagnostic returned an error. {why}\n",
        )
    if not machine.visible():
        return NO_DATA, "Error: Unable to complete diagnostic. Return: (-14) : No data is available\n"
    if "hung_diag" in machine.faults:
        await asyncio.Event().wait()
    if busy:
        await clock.sleep(2)
        why = "The requested operation could not be completed because the affected resource is in use"
        return IN_USE, f"Error: Unable to complete diagnostic. Return: (-34) : {why}\n"
    expected = option(argv, "--expectedNumEntities")
    if expected and expected.rpartition(":")[2] != str(len(machine.visible())):
        return BAD_PARAMETER, "Error: Unable to complete diagnostic. Return: (-1) : Bad parameter passed to function\n"
    return None


def result(machine, tests, round_number=0):
    """(document, exit code) of one run of [(category, test)] on the machine as it is now."""
    categories, severities = {}, []
    for category, test in tests:
        entries = [_entry(machine, gpu, test, round_number) for gpu in machine.visible()]
        severities += [w["error_severity"] for entry in entries for w in entry.get("warnings", [])]
        word = "Fail" if any(entry["status"] == "Fail" for entry in entries) else "Pass"
        # Until 4.4 the summary repeats no warning of an entity.
        categories.setdefault(category, []).append({"name": test, "results": entries, "test_summary": {"status": word}})
    gpus = [{"device_id": "2330", "entity_id": gpu.index, "serial_num": gpu.serial} for gpu in machine.visible()]
    document = {
        "DCGM Diagnostic": {
            "test_categories": [{"category": name, "tests": found} for name, found in categories.items()]
        },
        "entity_groups": [{"entities": gpus, "entity_group": "GPU", "entity_group_id": 1}],
        "metadata": {"Driver Version Detected": machine.driver, "version": VERSION},
    }
    return document, ISOLATE if ISOLATE_SEVERITY in severities else ERROR if severities else PASS


def together(documents, code):
    """The document of --iterations; it stops at the first iteration that is no pass."""
    whole = {"Overall Result": "Fail" if code else "Pass", "iterations": documents}
    if code == ISOLATE:
        whole["warning"] = "The diagnostic returned an error that indicates the need to drain the GPU"
    elif code:
        whole["warning"] = "The diagnostic returned an error"
    return whole


def _entry(machine, gpu, test, round_number):
    entry = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu.index, "status": "Pass"}
    error = _error(machine, gpu, test)
    if error:
        number, category, severity, text = error
        text = text.format(gpu=gpu.index, xid=gpu.xids[-1] if gpu.xids else 0)
        facts = {"error_category": category, "error_id": number, "error_severity": severity, "warning": text}
        return {**entry, "status": "Fail", "warnings": [facts]}
    info = _info(test, lambda share: 1 + share * machine.noise(test, gpu.index, round_number))
    return {**entry, "info": [info]} if info else entry


def _error(machine, gpu, test):
    sick = machine.faults.get("memory_fail")
    if test == "memory" and sick is not None and sick["gpu"] == gpu.index:
        return MEMORY_MISMATCH
    if test == "software" and not gpu.healthy:
        return BY_XID.get(gpu.xids[-1] if gpu.xids else None, ANY_XID)
    return None


def _info(test, about):
    """The measured number of a test that prints one. about(share): close to 1, by at most that share."""
    if test == "targeted_power":
        return f"Max power: {694 * about(0.008):.1f} W"
    if test == "memory_bandwidth":
        return f"Triad bandwidth: {2450 * about(0.008):.1f} GB/s"
    if test == "targeted_stress":
        return f"Stress level: {39200 * about(0.006):.0f} GFLOPS"
    return ""


def render(document):
    """Text of jsoncpp's StyledStreamWriter: keys sorted, tabs, ` : `, short lists of plain values on one line."""
    return f"{_lines(document, '')}\n"


def _lines(value, indent):
    inner = indent + "\t"
    if isinstance(value, dict) and value:
        fields = [f"{inner}{json.dumps(key)} : {_below(value[key], inner)}" for key in sorted(value)]
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        if not _is_long(value):
            return f"[ {', '.join(json.dumps(v) for v in value)} ]"
        return "[\n" + ",\n".join(inner + _lines(v, inner) for v in value) + f"\n{indent}]"
    return json.dumps(value)


def _below(value, indent):
    """A value that takes several lines begins on a line of its own."""
    long = bool(value) and (isinstance(value, dict) or (isinstance(value, list) and _is_long(value)))
    return f"\n{indent}{_lines(value, indent)}" if long else _lines(value, indent)


def _is_long(values):
    nested = any(isinstance(v, (dict, list)) and v for v in values)
    return nested or len(values) * 3 >= 74 or 4 + 2 * (len(values) - 1) + sum(len(json.dumps(v)) for v in values) >= 74


def as_text(document):
    """The table that dcgmi prints without -j."""
    name, value = WIDTHS
    line, metadata = f"+{'-' * name}+{'-' * value}+", document["metadata"]
    lines = [
        "Successfully ran diagnostic for group.",
        line,
        _cells("Diagnostic", "Result"),
        line.replace("-", "="),
        f"|-----  {'Metadata  ':-<20}+{'-' * value}|",
        _cells("DCGM Version", metadata["version"]),
        _cells("Driver Version Detected", metadata["Driver Version Detected"]),
    ]
    for i, category in enumerate(document["DCGM Diagnostic"]["test_categories"]):
        edge = "|" if i == 0 else "+"
        lines.append(f"{edge}-----  {category['category'] + '  ':-<20}+{'-' * value}{edge}")
        for test in category["tests"]:
            lines.append(_cells(test["name"], test["test_summary"]["status"]))
            for entry in test["results"]:
                lines.append(_cells("", f"GPU{entry['entity_id']}: {entry['status']}"))
                for warning in entry.get("warnings", []):
                    lines.append(_cells(f"Warning: GPU{entry['entity_id']}", warning["warning"]))
    return "\n".join([*lines, line]) + "\n"


def _cells(left, right):
    return f"| {left:<{WIDTHS[0] - 2}} | {right:<{WIDTHS[1] - 2}} |"
