# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `all_reduce_perf` prints on a machine of the simulated cluster, in the layout of nccl-tests 2.19.6.

Bandwidths follow latency + size/peak, with a little noise that is the same for the same machine and seed.
"""

from __future__ import annotations

import asyncio
import re

from simulator.nodes.dcgm import option

VERSION = "# nccl-tests version 2.19.6 nccl-headers=23003 nccl-library=23003"
HEALTHY_GBPS, WEAK_GBPS = 482.0, 322.0
LATENCY_US = 27.5
ROW_S = 2.5
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def size(text):
    found = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    if not found:
        raise ValueError(f"invalid size {text}")
    return int(found[1]) * UNITS[found[2]]


async def play(argv, machine, clock, emit, busy=False):
    """Run `all_reduce_perf …`; rows appear as they are measured. Returns the exit code."""
    smallest, largest = (
        size(option(argv, "-b", "--minbytes", default="32M")),
        size(option(argv, "-e", "--maxbytes", default="32M")),
    )
    factor, gpus = int(option(argv, "-f", "--stepfactor", default="2")), int(option(argv, "-g", "--ngpus", default="1"))
    check = int(option(argv, "-c", "--check", default="1"))
    visible = machine.visible()
    if gpus > len(visible):
        emit(f"Invalid number of GPUs: {gpus} requested but only {len(visible)} were found.\n")
        emit("Please check the number of processes and GPUs per process.\n")
        return 5
    emit(head(machine, smallest, largest, factor, gpus, check))
    if busy:
        emit(f"{machine.name}: Test CUDA failure common.cu:1199 'CUDA-capable device(s) is/are busy or unavailable'\n")
        return 2
    if "hung_diag" in machine.faults:
        await asyncio.Event().wait()
    bandwidths, bytes_ = [], smallest
    while bytes_ <= largest:
        await clock.sleep(ROW_S)
        text, both = row(machine, bytes_, gpus, check)
        emit(text)
        bandwidths += both
        bytes_ *= factor
    mean = sum(bandwidths) / len(bandwidths)
    emit(
        f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {mean:g} \n#\n# Collective test concluded: all_reduce_perf\n\n"
    )
    return 0


def head(machine, smallest, largest, factor, gpus, check):
    lines = [
        VERSION,
        "# Collective test starting: all_reduce_perf",
        f"# nThread 1 nGpus {gpus} minBytes {smallest} maxBytes {largest} step: {factor}(factor) warmup iters: 1 iters: 20 "
        f"agg iters: 1 validation: {check} graph: 0 unalign: 0",
        "#",
        "# Using devices",
    ]
    for gpu in machine.visible()[:gpus]:
        where = f"on {machine.name} device {gpu.index:2d} [0000:{gpu.bus}:00] NVIDIA H100 80GB HBM3"
        lines.append(f"#  Rank {gpu.index:2d} Group  0 Pid  41200 {where}")
    lines += [
        "#",
        "#                                                              out-of-place                       in-place          ",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ",
    ]
    return "\n".join(lines) + "\n"


def row(machine, bytes_, gpus, check=1):
    """(line, [out-of-place busbw, in-place busbw])."""
    peak = WEAK_GBPS if "weak_nvlink" in machine.faults else HEALTHY_GBPS
    factor = 2 * (gpus - 1) / gpus
    cells, both = [], []
    for place in ("out", "in"):
        noise = 1 + 0.004 * machine.noise("nccl", bytes_, place)
        time_us = LATENCY_US + bytes_ * factor / (peak * noise * 1e3)
        algbw = bytes_ / time_us / 1e3
        busbw = algbw * factor
        both.append(busbw)
        shown = f"{time_us:8.2f}" if time_us < 10000 else f"{time_us:8.1f}"
        cells.append(f"{shown}{algbw:8.2f}{busbw:8.2f}{'0' if check else 'N/A':>8}")
    return f"{bytes_:12d}{bytes_ // 4:14d}{'float':>10}{'sum':>8}{-1:8d} {cells[0]} {cells[1]}\n", both
