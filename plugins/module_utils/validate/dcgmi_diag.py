# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `dcgmi_diag`: NVIDIA's diagnostic on a node, judged."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import dcgm, dcgm_judge, options

ARGUMENT_SPEC = {
    **options.SHARED_SPEC,
    "binary": dict(type="str", default="dcgmi"),
    "image": dict(type="str", default="nvcr.io/nvidia/cloud-native/dcgm:4.4.1-2-ubuntu22.04"),
    "level": dict(type="int", choices=[1, 2, 3, 4], default=3),
    "expected_gpus": dict(type="int", required=True),
    "expected_serials": dict(type="list", elements="str", default=[]),
    "iterations": dict(type="int", default=1),
}
# Twice what eight GPUs were seen to need (level 2: 2.5-10.5 min, level 3: about 15 min, level 4: 45-135 min).
TIMEOUT_S = {1: 300, 2: 1260, 3: 3600, 4: 16200}


def run(task):
    """Returns verdict, cause, reasons[], tests[], gpus[], version and how it was run."""
    params = task.params
    if params["expected_gpus"] < 1 or params["iterations"] < 1:
        raise Failed("expected_gpus and iterations must be at least 1. Nothing was run.")
    serials = tuple(params["expected_serials"])
    if serials and len(set(serials)) != params["expected_gpus"]:
        raise Failed(
            f"expected_serials names {len(set(serials))} GPUs, expected_gpus says {params['expected_gpus']}. Nothing was run."
        )
    timeout_s = options.time_limit(params, TIMEOUT_S[params["level"]] * params["iterations"])
    argv = command(params)
    if task.check_mode:
        empty = {"tests": [], "gpus": [], "version": "", "driver_version": ""}
        return {**options.planned(task, "dcgmi diag", argv), **empty}
    execution = options.execute(task, "dcgmi_diag", argv, params["expected_gpus"], timeout_s)
    output = dcgm.read(execution.stdout)
    verdict = dcgm_judge.judge(
        output, execution.rc, params["level"], params["expected_gpus"], serials, params["iterations"]
    )
    document = output.documents[-1] if output.documents else None
    return options.answer(
        task,
        "dcgmi diag",
        options.settle(verdict, execution),
        execution,
        argv,
        level=params["level"],
        tests=tests_of(document),
        gpus=gpus_of(document),
        version=document.version if document else "",
        driver_version=document.driver_version if document else "",
    )


def command(params):
    argv = [params["binary"], "diag", "-r", str(params["level"]), "-j"]
    return [*argv, "--iterations", str(params["iterations"])] if params["iterations"] > 1 else argv


def tests_of(document):
    """[{name, verdict, gpus_passed, problems[]}] as the tool reported them."""
    found = []
    for test in document.tests if document else ():
        verdict = _word(test.results)
        passed = len({r.gpu for r in test.results if r.gpu is not None and r.status == "pass"})
        problems = [problem.text for result in test.results for problem in result.problems]
        found.append({"name": test.name, "verdict": verdict, "gpus_passed": passed, "problems": problems})
    return found


def gpus_of(document):
    """[{index, serial, verdict, errors[]}] of every GPU the output names."""
    if document is None:
        return []
    serials = dict(document.gpus or {})
    for test in document.tests:
        for result in test.results:
            if result.gpu is not None:
                serials.setdefault(result.gpu, "")
    found = []
    for index in sorted(serials):
        mine = [r for test in document.tests for r in test.results if r.gpu == index]
        verdict = _word(mine)
        errors = [problem.text for r in mine for problem in r.problems]
        found.append({"index": index, "serial": serials[index], "verdict": verdict, "errors": errors})
    return found


def _word(results):
    """Verdict of some results together; none at all, and a warning on a pass, are unknown."""
    words = {result.status for result in results}
    if words & {"fail", "warn"}:
        return "fail"
    return "pass" if words == {"pass"} and not any(result.problems for result in results) else "unknown"
