# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DCGM's error ids by what they mean for a node, and the exit codes of dcgmi.

Ids and severities: NVIDIA/DCGM v4.6.0 dcgmlib/dcgm_errors.h and dcgm_errors.c (133 codes; the ones that decide are here).
Severities there: 1 MONITOR, 2 ISOLATE, 3 UNKNOWN, 4 TRIAGE, 5 CONFIG, 6 RESET. The class is ours: single severities have
moved between versions, so the number the tool prints is only a hint for ids that are not listed.
"""

from __future__ import annotations

LAST = 132
CONFIG = 5

# class -> {id: name}. What each class means for a failed test stands in dcgm_judge.
BY_CLASS = {
    "hardware": {
        3: "PCI_REPLAY_RATE",
        13: "NVLINK_ERROR_THRESHOLD",
        14: "NVLINK_DOWN",
        30: "LOW_BANDWIDTH",
        45: "PCIE_GENERATION",
        46: "PCIE_WIDTH",
        52: "FAULTY_MEMORY",
        57: "CUDA_DBE",
        58: "MEMORY_MISMATCH",
        70: "NVLINK_CRC_ERROR_THRESHOLD",
        71: "NVLINK_ERROR_CRITICAL",
        79: "L1TAG_MISCOMPARE",
        80: "ROW_REMAP_FAILURE",
        81: "UNCONTAINED_ERROR",
        99: "GPU_EXPECTED_NVLINKS_UP",
        103: "DBE_VIOLATION",
        104: "PCIE_REPLAY_VIOLATION",
        109: "SXID_ERROR",
        111: "NAN_VALUE",
        113: "BROKEN_P2P_PCIE_MEMORY",
        114: "BROKEN_P2P_PCIE_WRITER",
        115: "BROKEN_P2P_NVLINK_MEMORY",
        116: "BROKEN_P2P_NVLINK_WRITER",
        118: "SRAM_THRESHOLD",
        119: "NVLINK_EFFECTIVE_BER",
        120: "FALLEN_OFF_BUS",
        121: "NVLINK_SYMBOL_BER",
        126: "GPU_RECOVERY_REBOOT",
        131: "CONTAINED_ERROR",
        132: "UNCORRECTABLE_ROW_REMAP_LIMIT",
    },
    # Reset the GPU and run again (NVML's recovery actions, and row remaps that wait for a reset).
    "reset": {
        84: "UNCORRECTABLE_ROW_REMAP",
        85: "PENDING_ROW_REMAP",
        125: "GPU_RECOVERY_RESET",
        127: "GPU_RECOVERY_DRAIN_P2P",
        128: "GPU_RECOVERY_DRAIN_RESET",
    },
    # Any Xid during the run gives it, harmless ones included (NVSentinel #1357, #1358): the Xid decides what to do.
    "xid": {101: "XID_ERROR"},
    "missing": {20: "DEVICE_COUNT_MISMATCH"},
    "performance": {
        36: "FIELD_THRESHOLD_DBL",
        38: "FIELD_THRESHOLD_TS",
        39: "FIELD_THRESHOLD_TS_DBL",
        50: "STRESS_LEVEL",
        62: "MEMORY_BANDWIDTH",
        63: "TARGET_POWER",
        110: "GFLOPS_THRESHOLD",
    },
    # Heat, power and the clocks they hold down.
    "environment": {10: "THERMAL", 12: "CLOCKS", 40: "THERMAL", 41: "THERMAL", 42: "CLOCKS"},
    "fabric": {
        108: "FABRIC_MANAGER_NOT_INITIALIZED",
        112: "FABRIC_MANAGER_TRAINING",
        122: "IMEX_UNHEALTHY",
        123: "FABRIC_PROBE_STATE",
        129: "NCCL_ERROR",
    },
    # Fix the configuration and run again: no verdict about hardware.
    "configuration": {
        23: "DENYLISTED_DRIVER",
        25: "GRAPHICS_PROCESSES",
        28: "BAD_CUDA_ENV",
        29: "PERSISTENCE_MODE",
        55: "ECC_DISABLED",
        96: "FILE_CREATE_PERMISSIONS",
    },
    # Usually another process on the GPU (go-dcgm #52).
    "busy": {51: "CUDA_API", 56: "MEMORY_ALLOC", 59: "CUDA_DEVICE", 66: "CUDA_CONTEXT", 73: "MEMORY_ALLOC_HOST"},
    # The tool could not do its work.
    "not_tested": {47: "ABORTED", 48: "TEST_DISABLED", 117: "TEST_SKIPPED", 130: "RETEST_REQUESTED"},
}
NAMES = {error_id: name for named in BY_CLASS.values() for error_id, name in named.items()}
_CLASS_OF = {error_id: word for word, named in BY_CLASS.items() for error_id in named}

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
    235: "no connection to the DCGM host engine",
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
    """Class of an error (a key of BY_CLASS) or "unclassified": no id, or one that this table does not know.

    A known range with an unlisted id counts as hardware unless the tool itself calls it a matter of configuration.
    """
    if error_id is None or not 1 <= error_id <= LAST:
        return "unclassified"
    if error_id in _CLASS_OF:
        return _CLASS_OF[error_id]
    return "configuration" if severity == CONFIG else "hardware"
