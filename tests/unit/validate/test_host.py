# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The diagnostics run on the host itself, by programs of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jobs import FIXTURES, sample, task_for

from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import all_reduce_perf, dcgmi_diag, host

ROOT = Path(__file__).parents[3]


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def operate(operation, binary, **params):
    task = task_for("x", operation.ARGUMENT_SPEC, None, executor="host", binary=binary, fail_on_verdict=False, **params)
    return operation.run(task)


def test_dcgmi_on_the_host(tmp_path):
    binary = program(
        tmp_path, "dcgmi", f'echo "$@" > {tmp_path}/args; echo notice >&2; cat {FIXTURES}/dcgmi/02-pass-v4.json'
    )
    result = operate(dcgmi_diag, binary, level=2, expected_gpus=8)
    assert (result["verdict"], result["rc"]) == ("pass", 0)
    assert (tmp_path / "args").read_text().split() == ["diag", "-r", "2", "-j"]


def test_nccl_on_the_host(tmp_path):
    binary = program(tmp_path, "all_reduce_perf", f"cat {FIXTURES}/nccl/01-healthy-h100-8gpu.txt")
    result = operate(all_reduce_perf, binary, gpus=8, min_busbw_gbps=450.0)
    assert (result["verdict"], result["busbw_gbps"], result["ranks"]) == ("pass", 481.07, 8)
    assert result["curve"][-1] == {"bytes": 2**33, "busbw_gbps": 481.07}
    assert result["baseline"] == {"min_busbw_gbps": 450.0, "origin": "site"}


def test_what_is_set_for_nccl_is_set_and_recorded(tmp_path):
    text = f'test "$NCCL_NVLS_ENABLE" = 0 && cat {FIXTURES}/nccl/01-healthy-h100-8gpu.txt'
    binary = program(tmp_path, "all_reduce_perf", text)
    result = operate(all_reduce_perf, binary, gpus=8, min_busbw_gbps=450.0, env={"NCCL_NVLS_ENABLE": 0})
    assert (result["verdict"], result["env"]) == ("pass", {"NCCL_NVLS_ENABLE": "0"})


def test_a_reason_on_stderr_is_read_too(tmp_path):
    text = "Invalid number of GPUs: 8 requested but only 7 were found."
    binary = program(tmp_path, "all_reduce_perf", f"echo '{text}' >&2; exit 5")
    result = operate(all_reduce_perf, binary, gpus=8, min_busbw_gbps=450.0)
    assert (result["verdict"], result["cause"]) == ("fail", "missing")
    assert text in result["output"]


@pytest.mark.parametrize(
    ("text", "rc", "cause"),
    [
        ("exit 127", 127, "not_started"),
        ("kill -9 $$", 137, "killed"),
        ("exit 222", 222, "output"),
    ],
)
def test_a_run_that_went_wrong_is_unknown(tmp_path, text, rc, cause):
    result = operate(dcgmi_diag, program(tmp_path, "dcgmi", text), level=2, expected_gpus=8)
    assert (result["verdict"], result["rc"], result["cause"]) == ("unknown", rc, cause)


def test_a_hang_ends_with_everything_it_started(tmp_path):
    """A child that ignores TERM and keeps the output open holds nothing up and does not stay."""
    child = tmp_path / "child.py"
    child.write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(60)\n"
    )
    wait = f"while [ ! -s {tmp_path}/pid ]; do sleep 0.05; done"
    binary = program(tmp_path, "dcgmi", f"{sys.executable} {child} & {wait}; echo started; wait")
    began = time.monotonic()
    execution = host.run([binary], timeout_s=5, kill_after_s=0.2)
    assert time.monotonic() - began < 30
    assert (execution.cause, execution.stdout) == ("timeout", "started\n")
    pid = int((tmp_path / "pid").read_text())
    for _attempt in range(100):
        if not alive(pid):
            break
        time.sleep(0.05)
    assert not alive(pid)


def alive(pid):
    """A zombie, which nobody may be there to reap, counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_term_lets_the_program_say_goodbye(tmp_path):
    """dcgmi stops the run in the host engine on TERM."""
    binary = program(tmp_path, "dcgmi", "trap 'echo stopped; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    execution = host.run([binary], timeout_s=2, kill_after_s=20)
    assert (execution.rc, execution.cause) == (124, "timeout")
    assert execution.stdout == "ready\nstopped\n"


def test_a_missing_program_names_the_next_step():
    with pytest.raises(Failed, match="/nowhere/dcgmi cannot be started .* No such file.* executor: pod"):
        host.run(["/nowhere/dcgmi"], 5)


@pytest.mark.parametrize(
    ("operation", "params", "words"),
    [
        (dcgmi_diag, dict(expected_gpus=0), "at least 1"),
        (dcgmi_diag, dict(expected_gpus=8, iterations=0), "at least 1"),
        (dcgmi_diag, dict(expected_gpus=8, timeout_s=0), "timeout_s"),
        (dcgmi_diag, dict(expected_gpus=8, expected_serials=["1", "2"]), "names 2 GPUs"),
        (all_reduce_perf, dict(gpus=1), "at least 2"),
        (all_reduce_perf, dict(gpus=8, max_bytes="8 gigs"), "not a size"),
        (all_reduce_perf, dict(gpus=8, min_bytes="0"), "above 0"),
        (all_reduce_perf, dict(gpus=8, min_bytes="1G", max_bytes="1M"), "not above max_bytes"),
        (all_reduce_perf, dict(gpus=8, factor=1), "factor"),
        (all_reduce_perf, dict(gpus=8, min_busbw_gbps=float("nan")), "min_busbw_gbps"),
        (all_reduce_perf, dict(gpus=8, min_busbw_gbps=0.0), "min_busbw_gbps"),
        (all_reduce_perf, dict(gpus=8, executor="pod"), "image"),
        (all_reduce_perf, dict(gpus=8, env={"LD_PRELOAD": "x"}), "LD_PRELOAD"),
        (all_reduce_perf, dict(gpus=8, env={"NCCL_TESTS_DEVICE": 1}), "NCCL_TESTS_DEVICE"),
    ],
)
def test_bad_parameters_are_refused_before_anything_runs(operation, params, words):
    task = task_for("x", operation.ARGUMENT_SPEC, None, **{"executor": "host", "binary": "/nowhere/x", **params})
    with pytest.raises(Failed, match=words) as caught:
        operation.run(task)
    assert "Nothing was run" in caught.value.message


@pytest.mark.parametrize(("last", "reached"), [("8G", 2**33), ("10G", 2**33), ("8", 8), ("1M", 2**20)])
def test_the_size_that_must_be_measured_is_the_last_one_the_steps_reach(last, reached):
    assert all_reduce_perf.largest_size({"min_bytes": "8", "max_bytes": last, "factor": 2}) == reached


@pytest.mark.parametrize(
    ("operation", "params", "keys"),
    [
        (dcgmi_diag, dict(expected_gpus=8), ["tests", "gpus", "version", "driver_version"]),
        (all_reduce_perf, dict(gpus=8), ["busbw_gbps", "curve", "baseline"]),
    ],
)
def test_check_mode_runs_nothing_and_claims_nothing(operation, params, keys):
    task = task_for("x", operation.ARGUMENT_SPEC, None, True, executor="host", binary="/nowhere/x", **params)
    result = operation.run(task)
    assert (result["verdict"], result["cause"]) == ("unknown", "check_mode")
    assert "/nowhere/x" in result["reasons"][0]
    assert set(keys) <= set(result)


def test_an_output_without_end_is_cut_and_does_not_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "OUTPUT_LIMIT", 2000)
    binary = program(tmp_path, "dcgmi", f"cat {FIXTURES}/dcgmi/02-pass-v4.json")
    assert len(sample("dcgmi", "02-pass-v4.json")) > 2000
    assert operate(dcgmi_diag, binary, level=2, expected_gpus=8)["verdict"] == "unknown"


def test_the_host_path_needs_no_kubernetes_client(tmp_path):
    """A node has Python, but hardly ever the Kubernetes client."""
    binary = program(tmp_path, "dcgmi", f"cat {FIXTURES}/dcgmi/02-pass-v4.json")
    code = (
        "import sys; sys.modules.update(kubernetes=None, urllib3=None)\n"
        "sys.path.insert(0, 'tests/unit/validate')\n"
        "import test_host\n"
        f"print(test_host.operate(test_host.dcgmi_diag, {binary!r}, level=2, expected_gpus=8)['verdict'])"
    )
    path = os.pathsep.join([str(ROOT / ".collections"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout == "pass\n", done.stderr
