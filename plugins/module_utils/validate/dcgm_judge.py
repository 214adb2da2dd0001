# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Is this dcgmi run a pass? Pure. Everything that was expected must be there and pass; anything else is fail or unknown.

Ten rules behind it: exit 0 is not a pass, 226 is not always a sick GPU, a skip is not a pass, a warning on a Pass is a
contradiction (NVIDIA/DCGM #284), a test without results did not run, the output must name this machine.
"""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import dcgm, dcgm_errors
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.verdict import PASS, fail, unknown

# NVIDIA/DCGM nvvs/src/NvidiaValidationSuite.cpp FillTestVectors of v3.3.9 and v4.6.0. Not required: eud, cpu_eud and rist
# (root and a package), nvbandwidth and nccl_tests (not in every 4.x).
DEPLOYMENT_V3 = (
    "Denylist",
    "NVML Library",
    "CUDA Main Library",
    "Permissions and OS Blocks",
    "Persistence Mode",
    "Environment Variables",
    "Page Retirement/Row Remap",
    "Graphics Processes",
    "Inforom",
)
REQUIRED_V3 = {
    1: DEPLOYMENT_V3,
    2: (*DEPLOYMENT_V3, "PCIe", "GPU Memory"),
}
REQUIRED_V3[3] = (*REQUIRED_V3[2], "Diagnostic", "Memory Bandwidth", "Targeted Stress", "Targeted Power")
REQUIRED_V3[4] = (*REQUIRED_V3[3], "Memtest", "Pulse Test")
REQUIRED_V4 = {1: ("software",), 2: ("software", "memory", "pcie")}
REQUIRED_V4[3] = (*REQUIRED_V4[2], "diagnostic", "memory_bandwidth", "targeted_stress", "targeted_power")
REQUIRED_V4[4] = (*REQUIRED_V4[3], "memtest", "pulse_test")
HARDWARE_TEXTS = ("incorrect value", "memory mismatch", "fallen off", "double bit")
# Of several failures the first of these classes is the cause. The last two say that nothing was tested: `unknown`.
ORDER = (
    "hardware",
    "missing",
    "reset",
    "xid",
    "performance",
    "environment",
    "unclassified",
    "fabric",
    "configuration",
    "busy",
    "not_tested",
)
PROVE_NOTHING = ("busy", "not_tested")


def judge(output, rc, level, expected_gpus, expected_serials=(), iterations=1):
    """Verdict for one run. output: dcgm.Output. rc: exit code. expected_serials: () when the inventory does not know."""
    verdicts = [_judge_document(d, rc, level, expected_gpus, expected_serials) for d in output.documents]
    failed = next((v for v in verdicts if v.word == "fail"), None)
    if failed:
        return failed
    if rc in dcgm_errors.HARDWARE_EXIT_CODES:
        return fail("hardware", f"dcgmi ended with {rc}: {dcgm_errors.EXIT_CODES[rc]}")
    if output.problem:
        return unknown("output", output.problem, *_exit(rc))
    doubtful = next((v for v in verdicts if v.word == "unknown"), None)
    if doubtful:
        return doubtful
    if len(verdicts) != iterations or output.iterated != (iterations > 1):
        return unknown("iterations", f"{len(verdicts)} of {iterations} iterations ran")
    if rc != 0:
        return unknown("contradiction", f"everything passes, yet dcgmi ended with {rc}", *_exit(rc))
    if output.iterated and output.overall != "pass":
        return unknown("contradiction", "every iteration passes, yet dcgmi does not call the whole a pass")
    return PASS


def _exit(rc):
    return (f"exit code {rc}: {dcgm_errors.EXIT_CODES[rc]}",) if rc in dcgm_errors.EXIT_CODES else (f"exit code {rc}",)


def _of_third_generation(document):
    return any(test.name in DEPLOYMENT_V3 for test in document.tests)


def required_tests(document, level):
    """Test names that must be present, by the generation of DCGM that wrote the document."""
    return (REQUIRED_V3 if _of_third_generation(document) else REQUIRED_V4)[level]


def _judge_document(document, rc, level, expected_gpus, expected_serials):
    if document.runtime_error:
        return unknown("not_run", f"the diagnostic did not run: {' '.join(document.runtime_error.split())}", *_exit(rc))
    if not document.tests:
        return unknown("zero_tests", "the diagnostic ran no test", *_exit(rc))
    strangers = sorted(_serials(document) - set(expected_serials)) if expected_serials else ()
    if strangers:
        return unknown("identity", f"the output is about other GPUs: {', '.join(strangers)}")
    failed = _failures(document)
    if failed:
        return failed
    missing = _missing_gpus(document, expected_gpus, expected_serials)
    if missing:
        return missing
    doubts = list(_doubts(document, level, expected_gpus))
    return unknown("incomplete", *doubts) if doubts else PASS


def _failures(document):
    """The worst failure, by class: hardware goes before performance, and both before what proves nothing."""
    found = []
    for test in document.tests:
        for result in test.results:
            # A warning on a skip or a pass is no failure, but no pass either: see _doubts.
            if result.status in ("fail", "warn") or (result.problems and result.status not in ("pass", "skip")):
                found += [(test, result, problem) for problem in result.problems or (dcgm.Problem(""),)]
        if test.summary in ("fail", "warn") and not any(r.status in ("fail", "warn") for r in test.results):
            found.append((test, dcgm.Result(None, "fail", ()), dcgm.Problem("")))
    if not found:
        return None
    classes = [(_class_of(problem), _sentence(test, result, problem)) for test, result, problem in found]
    worst = min((word for word, _text in classes), key=ORDER.index)
    texts = tuple(dict.fromkeys(text for word, text in classes if word == worst))[:8]
    return unknown(worst, *texts) if worst in PROVE_NOTHING else fail(worst, *texts)


def _class_of(problem):
    word = dcgm_errors.classify(problem.error_id, problem.severity)
    if word == "unclassified" and any(text in problem.text.lower() for text in HARDWARE_TEXTS):
        return "hardware"
    if word == "unclassified" and "persistence mode" in problem.text.lower():
        return "configuration"
    return word


def _sentence(test, result, problem):
    where = f" on GPU {result.gpu}" if result.gpu is not None else ""
    what = f": {' '.join(problem.text.split())}" if problem.text else ""
    name = dcgm_errors.NAMES.get(problem.error_id)
    number = f" (DCGM error {problem.error_id}{' ' + name if name else ''})" if problem.error_id is not None else ""
    return f"{test.name} failed{where}{what}{number}"


def _serials(document):
    return set((document.gpus or {}).values()) - {""}


def _seen(document):
    if document.gpus:
        return set(document.gpus)
    return {result.gpu for test in document.tests for result in test.results if result.gpu is not None}


def _missing_gpus(document, expected_gpus, expected_serials):
    seen = _seen(document)
    if expected_serials:
        serials = _serials(document)
        if not serials:
            return unknown("identity", "the output names no serials, so it is not proven that it is about this machine")
        blank = sorted(index for index, serial in document.gpus.items() if not serial)
        if blank:
            return unknown("identity", f"GPU {', '.join(map(str, blank))} has no serial in the output")
        gone = sorted(set(expected_serials) - serials)
        if gone:
            return fail("missing", f"the GPUs with serials {', '.join(gone)} were not found")
    if not seen:
        return unknown("incomplete", "the output names no GPU")
    if expected_gpus and len(seen) < expected_gpus:
        return fail("missing", f"{len(seen)} of {expected_gpus} GPUs were found")
    if not expected_gpus:
        return unknown("expectation", "the number of GPUs to expect is not known")
    if len(seen) > expected_gpus:
        return unknown("expectation", f"{len(seen)} GPUs were found, {expected_gpus} were expected")
    return None


def _doubts(document, level, expected_gpus):
    by_name = {test.name: test for test in document.tests}
    required, listed = required_tests(document, level), set(document.gpus or ())
    # The Deployment checks of 3.x and earlier are about the machine; everything else has a result for each GPU.
    of_machine = DEPLOYMENT_V3 if _of_third_generation(document) else ()
    absent = [name for name in required if name not in by_name]
    if absent:
        yield f"not run: {', '.join(absent)}"
    for test in document.tests:
        needed = test.name in required
        if not test.results:
            if needed:
                yield f"{test.name} has no results"
            continue
        for result in test.results:
            where = f" on GPU {result.gpu}" if result.gpu is not None else ""
            if result.status != "pass" and (needed or result.status != "skip"):
                said = "; ".join(filter(None, (result.info, *(problem.text for problem in result.problems))))
                why = f" ({said})" if said else ""
                yield f"{test.name} says {result.status or 'nothing'}{where}{why}"
            elif result.problems:
                yield f"{test.name} passes with a warning{where}: {result.problems[0].text}"
        gpus = {result.gpu for result in test.results if result.gpu is not None and result.status == "pass"}
        strangers = {result.gpu for result in test.results if result.gpu is not None} - listed if listed else ()
        if strangers:
            yield f"{test.name} speaks of GPUs that the output does not list: {', '.join(map(str, sorted(strangers)))}"
        if needed and test.name not in of_machine and len(gpus) != expected_gpus:
            yield f"{test.name} passed on {len(gpus)} of {expected_gpus} GPUs"
        if needed and test.summary not in (None, "pass"):
            yield f"{test.name} says {test.summary or 'nothing'} as a whole"
