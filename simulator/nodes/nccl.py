# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `all_reduce_perf` prints on a machine of the simulated cluster, in the layout of nccl-tests 2.19.6.

Times follow latency + size/bandwidth, with noise below 1 % that is the same for the same machine and seed.
"""

from __future__ import annotations

import asyncio
import re

from simulator.nodes.dcgm import option

VERSION = "# nccl-tests version 2.19.6 nccl-headers=23003 nccl-library=23003"
# Bus bandwidth at large sizes, GB/s: NVIDIA/nccl-tests#212 and #272 (NVLink SHARP on); a weak link as two thirds of it.
HEALTHY_GBPS = {"NVIDIA-H200": 475.0, "NVIDIA-H100": 482.0}
WEAK = 322 / 482
LATENCY_US = 28.0
ROW_S = 2.5
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
OK, CUDA_ERROR, TOO_FEW, INVALID_USAGE = 0, 2, 5, 6
# Xids after which CUDA reports memory errors that cannot be corrected.
ECC_XIDS = (48, 95)


def size(text):
    found = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    if not found:
        raise ValueError(f"invalid size specified for '{text}'\n")
    return int(found[1]) * UNITS[found[2]]


async def play(argv, machine, clock, emit, busy=False):
    """Run `all_reduce_perf …`; rows appear as they are measured. Returns the exit code."""
    try:
        smallest, largest = (
            size(option(argv, *names, default="32M")) for names in (("-b", "--minbytes"), ("-e", "--maxbytes"))
        )
        factor = int(option(argv, "-f", "--stepfactor", default="1"))
        step = size(option(argv, "-i", "--stepbytes", default="1M"))
        gpus = int(option(argv, "-g", "--ngpus", default="1"))
        check = int(option(argv, "-c", "--check", default="1"))
    except ValueError as error:
        emit(f"{error}")
        return INVALID_USAGE
    emit(head(smallest, largest, factor, step, gpus, check))
    refusal = _refused(machine, gpus, busy)
    if refusal:
        code, text = refusal
        emit(f"{text}\n .. {machine.name} pid 41200: Test failure src/common.cu:1457\n")
        return code
    emit(devices(machine, gpus))
    if "hung_diag" in machine.faults:
        await asyncio.Event().wait()
    bandwidths, bytes_ = [], smallest
    while bytes_ <= largest:
        await clock.sleep(ROW_S)
        text, both = row(machine, bytes_, gpus, check)
        if any(xid in ECC_XIDS for gpu in machine.visible()[:gpus] for xid in gpu.xids):
            # The text is glued to the row that was begun.
            emit(f"{text[:48]}{_failure(machine, 'common.cu:552', 'uncorrectable ECC error encountered')}\n")
            return CUDA_ERROR
        emit(text)
        bandwidths += both
        bytes_ = bytes_ * factor if factor > 1 else bytes_ + step
    mean = f"{sum(bandwidths) / len(bandwidths):g}" if bandwidths else "-nan"
    emit(
        f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {mean} \n#\n# Collective test concluded: all_reduce_perf\n#\n\n"
    )
    return OK


def _refused(machine, gpus, busy):
    """(exit code, text) when no rank can start."""
    if machine.driver is None:
        return CUDA_ERROR, _failure(machine, "src/common.cu:941", "no CUDA-capable device is detected")
    if gpus > len(machine.visible()):
        return TOO_FEW, f"Invalid number of GPUs: {gpus} requested but only {len(machine.visible())} were found."
    if busy:
        return CUDA_ERROR, _failure(machine, "src/common.cu:1199", "CUDA-capable device(s) is/are busy or unavailable")
    return None


def _failure(machine, place, text):
    return f"{machine.name}: Test CUDA failure {place} '{text}'"


def head(smallest, largest, factor, step, gpus, check):
    steps = f"{factor}(factor)" if factor > 1 else f"{step}(bytes)"
    return (
        f"{VERSION}\n# Collective test starting: all_reduce_perf\n"
        f"# nThread 1 nGpus {gpus} minBytes {smallest} maxBytes {largest} step: {steps} warmup iters: 1 iters: 20 "
        f"agg iters: 1 validation: {check} graph: 0 unalign: 0\n#\n# Using devices\n"
    )


def devices(machine, gpus):
    model = machine.product.replace("-", " ")
    lines = [
        f"#  Rank {rank:2d} Group  0 Pid  41200 on {machine.name} device {gpu.index:2d} [0000:{gpu.bus}:00] {model}"
        for rank, gpu in enumerate(machine.visible()[:gpus])
    ]
    half = "    time   algbw   busbw  #wrong "
    units = "    (us)  (GB/s)  (GB/s)         "
    return "\n".join(
        [
            *lines,
            "#",
            f"#{'out-of-place':>74}{'in-place':>31}          ",
            f"#       size         count      type   redop    root {half}{half}",
            f"#        (B)    (elements)                           {units}{units}",
            "",
        ]
    )


def row(machine, bytes_, gpus, check=1):
    """(line, [out-of-place busbw, in-place busbw])."""
    peak = next((gbps for model, gbps in HEALTHY_GBPS.items() if machine.product.startswith(model)), 482.0)
    if "weak_nvlink" in machine.faults:
        peak *= WEAK
    ratio = 2 * (gpus - 1) / gpus
    cells, both = [], []
    for place in ("out", "in"):
        noise = 1 + 0.004 * machine.noise("nccl", bytes_, place)
        time_us = LATENCY_US + bytes_ * ratio / (peak * noise * 1e3)
        algbw = bytes_ / time_us / 1e3
        both.append(algbw * ratio)
        shown = f"{time_us:8.2f}" if time_us < 10000 else f"{time_us:8.1f}"
        cells.append(f"{shown}{algbw:8.2f}{algbw * ratio:8.2f}{'0' if check else 'N/A':>8}")
    return f"{bytes_:12d}{bytes_ // 4:14d}{'float':>10}{'sum':>8}{-1:8d} {cells[0]} {cells[1]}\n", both
