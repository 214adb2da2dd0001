# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Is this all_reduce_perf run a pass? Pure. Judged by the largest size, never by the average over all sizes."""

from __future__ import annotations

import math

from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.verdict import PASS, fail, unknown

# Texts after "Test CUDA failure": which of them is a verdict about a GPU (the other classes are set-up, fabric, network).
HARDWARE = ("uncorrectable ECC error",)
MISSING = ("Invalid number of GPUs",)
FABRIC = ("system not yet initialized",)
BUSY = ("busy or unavailable",)
# With NVLink SHARP off eight H100 reach about 370 (nccl-tests #212): no weak link, but not what was asked for either.
RING_GBPS = (355, 385)


def judge(run, rc, ranks, required_bytes, min_busbw_gbps):
    """Verdict for one run. run: nccl.Run. min_busbw_gbps: the site's limit; without one bandwidth cannot pass."""
    wrong = [row for row in run.rows if row.wrong]
    if wrong:
        sizes = ", ".join(f"{row.wrong} at {row.bytes} bytes" for row in wrong)
        return fail("corruption", f"wrong values: {sizes}")
    if run.failures:
        return _failed(run.failures, rc)
    if run.out_of_bounds and (run.out_of_bounds[1] != "OK" or run.out_of_bounds[0] != 0):
        return fail("corruption", f"{run.out_of_bounds[0]} values are out of bounds")
    if run.bad_rows:
        return unknown("truncated", f"a line of the table cannot be read: {run.bad_rows[0]}")
    if not run.rows:
        return unknown("no_rows", f"nothing was measured (exit code {rc})")
    if run.out_of_bounds is None or not run.ended:
        return unknown("truncated", "the footer is missing, so the run did not come to its end")
    if any(row.wrong is None for row in run.rows):
        return unknown("unchecked", "the values were not checked (-c 0)")
    if run.ranks != ranks:
        return unknown("ranks", f"{run.ranks} ranks took part, {ranks} were asked for")
    if ranks < 2:
        return unknown("ranks", "one rank measures nothing")
    largest = max(row.bytes for row in run.rows)
    if largest < required_bytes:
        return unknown("size", f"the largest size is {largest} bytes, {required_bytes} were asked for")
    # With -N the same size is measured several times.
    rows = [row for row in run.rows if row.bytes == largest]
    if not all(_ratio_fits(row, ranks) for row in rows):
        return unknown("ranks", f"bus and algorithm bandwidth are not in the ratio that {ranks} ranks give")
    if min_busbw_gbps is None:
        return unknown("no_limit", "no limit (min_busbw_gbps) is given to hold the bandwidth against")
    if not (math.isfinite(min_busbw_gbps) and min_busbw_gbps > 0):
        return unknown("no_limit", f"{min_busbw_gbps} is no limit to hold a bandwidth against")
    slowest = min(row.busbw_gbps for row in rows)
    if slowest < min_busbw_gbps:
        low, high = RING_GBPS
        hint = " (about what eight H100 reach with NVLink SHARP off)" if ranks == 8 and low <= slowest <= high else ""
        return fail(
            "bandwidth",
            f"bus bandwidth {slowest:.1f} GB/s is below {min_busbw_gbps:g} GB/s at {largest} bytes{hint}",
        )
    if rc != 0:
        return unknown("contradiction", f"everything is in order, yet the run ended with {rc}")
    return PASS


def busbw_gbps(run):
    """The figure that is judged: the slower placement at the largest size; None when nothing was measured."""
    largest = max((row.bytes for row in run.rows), default=None)
    return min((row.busbw_gbps for row in run.rows if row.bytes == largest), default=None)


def _ratio_fits(row, ranks):
    """busbw = algbw * 2(n-1)/n (nccl-tests PERFORMANCE.md), so the ratio tells how many ranks really took part."""
    factor = 2 * (ranks - 1) / ranks
    return row.algbw_out_gbps > 0 and abs(row.busbw_out_gbps / row.algbw_out_gbps - factor) <= 0.05 * factor


def _failed(texts, rc):
    """By the worst line: with several ranks the one that names the cause need not be the first."""

    def first_of(known):
        return next((text for text in texts if any(word in text for word in known)), None)

    if first_of(HARDWARE):
        return fail("hardware", first_of(HARDWARE))
    if first_of(MISSING):
        return fail("missing", first_of(MISSING))
    if first_of(FABRIC):
        return unknown("fabric", f"{first_of(FABRIC)}: Fabric Manager is not running or not finished")
    if first_of(BUSY):
        return unknown("busy", first_of(BUSY))
    return unknown("not_run", f"{texts[0]} (exit code {rc})")
