# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DCGM's error ids by what they mean for a node, and the exit codes of dcgmi.

From NVIDIA/DCGM v4.6.0 dcgmlib/dcgm_errors.h (133 codes; the ones that decide are listed). Severities there: 1 MONITOR,
2 ISOLATE, 3 UNKNOWN, 4 TRIAGE, 5 CONFIG, 6 RESET. An id above LAST is unknown, never harmless.
"""

from __future__ import annotations

LAST = 132
ISOLATE, CONFIG, RESET = 2, 5, 6

# Fix the configuration and run again: no verdict about hardware.
CONFIGURATION = {29, 55, 28, 23, 25, 96}
# The tool could not do its work: no verdict at all.
NOT_TESTED = {47, 48, 117, 130}
# Usually another process on the GPU: no verdict until the GPU is free.
BUSY = {56, 73, 51, 59, 66}
# Fabric or its software: not this GPU.
FABRIC = {112, 108, 122, 123, 129}
PERFORMANCE = {50, 62, 63, 110, 36, 38, 39}
MISSING = {20}

# dcgmReturn_t modulo 256 (dcgmlib/dcgm_structs.h) that say something by themselves.
EXIT_CODES = {
    226: "at least one error was counted",
    205: "at least one error that isolates a GPU was counted",
    242: "no tests or no results",
    203: "the diagnostic was killed",
    204: "the diagnostic is not installed",
    245: "timeout",
    217: "another diagnostic is running",
    222: "the resource is in use",
    216: "the diagnostic answered no JSON",
    215: "the diagnostic could not be started",
    198: "no test is available",
    190: "the diagnostic was stopped",
    206: "a plugin failed",
    233: "GPUs of different models in one group",
    250: "the driver is not supported",
    202: "DCGM is paused",
    189: "GPUs are detached",
    199: "the driver does not answer",
    238: "a GPU is lost",
    237: "a GPU needs a reset",
    255: "a parameter was refused, or the number of GPUs is not the expected one",
    254: "an option was not understood",
    124: "our time limit ended it",
    137: "it was killed (SIGKILL, or out of memory)",
}
HARDWARE_EXIT_CODES = {238, 237}


def classify(error_id, severity=None):
    """Class of an error: hardware, performance, missing, configuration, fabric, busy, not_tested or unclassified."""
    if error_id is None:
        return "unclassified"
    for ids, word in (
        (CONFIGURATION, "configuration"),
        (NOT_TESTED, "not_tested"),
        (BUSY, "busy"),
        (FABRIC, "fabric"),
        (PERFORMANCE, "performance"),
        (MISSING, "missing"),
    ):
        if error_id in ids:
            return word
    if error_id > LAST or error_id < 1:
        return "unclassified"
    return "configuration" if severity == CONFIG else "hardware"
