# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Is this all_reduce_perf run a pass? Pure. Judged by the largest size, never by the average over all sizes."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.verdict import PASS, fail, unknown

# Texts after "Test CUDA failure": which of them is a verdict about a GPU (the other classes are set-up, fabric, network).
HARDWARE = ("uncorrectable ECC error",)
FABRIC = ("system not yet initialized",)
BUSY = ("busy or unavailable",)
# With NVLink SHARP off eight H100 reach about 370 (nccl-tests #212): no weak link, but not what was asked for either.
RING_GBPS = (355, 385)


def judge(run, rc, ranks, required_bytes, min_busbw_gbps):
    """Verdict for one run. run: nccl.Run. min_busbw_gbps: the site's limit; without one bandwidth cannot pass."""
    if run.failure:
        return _failed(run.failure, rc)
    # Busbw = algbw * 2(n-1)/n: the ratio tells how many ranks really took part.
    largest = max(run.rows, key=lambda row: row.bytes, default=None)
    wrong = [row for row in run.rows if row.wrong]
    if wrong:
        sizes = ", ".join(f"{row.wrong} at {row.bytes} bytes" for row in wrong)
        return fail("corruption", f"wrong values: {sizes}")
    if run.out_of_bounds and (run.out_of_bounds[1] != "OK" or run.out_of_bounds[0] != 0):
        return fail("corruption", f"{run.out_of_bounds[0]} values are out of bounds")
    if run.bad_rows:
        return unknown("truncated", f"a line of the table cannot be read: {run.bad_rows[0]}")
    if largest is None:
        return unknown("no_rows", f"nothing was measured (exit code {rc})")
    if run.out_of_bounds is None:
        return unknown("truncated", "the footer is missing, so the run did not come to its end")
    if any(row.wrong is None for row in run.rows):
        return unknown("unchecked", "the values were not checked (-c 0)")
    if run.ranks != ranks:
        return unknown("ranks", f"{run.ranks} ranks took part, {ranks} were asked for")
    if ranks < 2:
        return unknown("ranks", "one rank measures nothing")
    if largest.bytes < required_bytes:
        return unknown("size", f"the largest size is {largest.bytes} bytes, {required_bytes} were asked for")
    factor = 2 * (ranks - 1) / ranks
    if largest.algbw_out_gbps <= 0 or abs(largest.busbw_out_gbps / largest.algbw_out_gbps - factor) > 0.05 * factor:
        return unknown("ranks", f"bus and algorithm bandwidth are not in the ratio that {ranks} ranks give")
    if min_busbw_gbps is None:
        return unknown("no_limit", "no limit (min_busbw_gbps) is given to hold the bandwidth against")
    if largest.busbw_gbps < min_busbw_gbps:
        low, high = RING_GBPS
        hint = (
            " (about what eight H100 reach with NVLink SHARP off)"
            if ranks == 8 and low <= largest.busbw_gbps <= high
            else ""
        )
        return fail(
            "bandwidth",
            f"bus bandwidth {largest.busbw_gbps:.1f} GB/s is below {min_busbw_gbps:g} GB/s at {largest.bytes} bytes{hint}",
        )
    if rc != 0:
        return unknown("contradiction", f"everything is in order, yet the run ended with {rc}")
    return PASS


def _failed(text, rc):
    if any(known in text for known in HARDWARE):
        return fail("hardware", text)
    if any(known in text for known in FABRIC):
        return unknown("fabric", f"{text}: Fabric Manager is not running or not finished")
    if any(known in text for known in BUSY):
        return unknown("busy", text)
    return unknown("not_run", f"{text} (exit code {rc})")
