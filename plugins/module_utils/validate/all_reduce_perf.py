# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `all_reduce_perf`: NCCL bandwidth over the GPUs of one node, judged against the site's limit."""

from __future__ import annotations

import math
import re

from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import nccl, nccl_judge, options

ARGUMENT_SPEC = {
    **options.SHARED_SPEC,
    "binary": dict(type="str", default="all_reduce_perf"),
    "image": dict(type="str"),
    "gpus": dict(type="int", required=True),
    "min_busbw_gbps": dict(type="float"),
    "limit_origin": dict(type="str", default="site"),
    "min_bytes": dict(type="str", default="8"),
    "max_bytes": dict(type="str", default="8G"),
    "factor": dict(type="int", default=2),
    "env": dict(type="dict", default={}),
}
TIMEOUT_S = 900
# Not NCCL_TESTS_*: those change what is measured, or what the tool calls a success.
ENVIRONMENT = re.compile(r"NCCL_(?!TESTS_)[A-Z0-9_]+")
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def size(text):
    """Bytes of "8", "512M" or "8G" (powers of 1024, as nccl-tests counts)."""
    found = re.fullmatch(r"(\d+)([KMG]?)", str(text).strip().upper())
    if not found:
        raise Failed(f"{text!r} is not a size such as 8, 512M or 8G. Nothing was run.")
    return int(found[1]) * UNITS[found[2]]


def largest_size(params):
    """Bytes of the largest size that the steps from min_bytes reach: the one that must be measured."""
    reached, last = size(params["min_bytes"]), size(params["max_bytes"])
    if params["factor"] < 2 or not 0 < reached <= last:
        raise Failed("factor must be at least 2, and min_bytes above 0 and not above max_bytes. Nothing was run.")
    while reached * params["factor"] <= last:
        reached *= params["factor"]
    return reached


def run(task):
    """Returns verdict, cause, reasons[], busbw_gbps, curve[], baseline and how it was run."""
    params = task.params
    if params["gpus"] < 2:
        raise Failed("gpus must be at least 2: one GPU has no partner to measure a bandwidth with. Nothing was run.")
    if params["executor"] == "pod" and not params["image"]:
        raise Failed(
            "all_reduce_perf needs `image` (in a play: gpuops_nccl_image), an image with nccl-tests: NVIDIA publishes "
            "none. Nothing was run. Build one from github.com/NVIDIA/nccl-tests, or use executor: host."
        )
    limit = params["min_busbw_gbps"]
    if limit is not None and not (math.isfinite(limit) and limit > 0):
        raise Failed(f"min_busbw_gbps must be a number above 0, not {limit}. Nothing was run.")
    env = environment(params)
    required = largest_size(params)
    timeout_s = options.time_limit(params, TIMEOUT_S)
    argv = command(params)
    if task.check_mode:
        planned = options.planned(task, "all_reduce_perf", argv)
        return {**planned, "env": env, "busbw_gbps": None, "curve": [], "baseline": _baseline(params)}
    execution = options.execute(task, "all_reduce_perf", argv, params["gpus"], timeout_s, env)
    measured = nccl.read(execution.stdout, execution.stderr)
    verdict = nccl_judge.judge(measured, execution.rc, params["gpus"], required, limit)
    return options.answer(
        task,
        "all_reduce_perf",
        options.settle(verdict, execution),
        execution,
        argv,
        busbw_gbps=nccl_judge.busbw_gbps(measured),
        average_busbw_gbps=measured.average_gbps,
        curve=[{"bytes": row.bytes, "busbw_gbps": row.busbw_gbps} for row in measured.rows],
        ranks=measured.ranks,
        version=measured.version,
        env=env,
        baseline=_baseline(params),
    )


def environment(params):
    """{name: text} for the program; what else is set there would not be seen in the record."""
    for name in params["env"] or {}:
        if not ENVIRONMENT.fullmatch(name):
            raise Failed(f"env may set variables of NCCL only (NCCL_…, not NCCL_TESTS_…), not {name}. Nothing was run.")
    return {name: str(value) for name, value in (params["env"] or {}).items()}


def command(params):
    return [
        params["binary"], "-b", params["min_bytes"], "-e", params["max_bytes"],
        "-f", str(params["factor"]), "-g", str(params["gpus"]),
    ]  # fmt: skip


def _baseline(params):
    return {"min_busbw_gbps": params["min_busbw_gbps"], "origin": params["limit_origin"]}
