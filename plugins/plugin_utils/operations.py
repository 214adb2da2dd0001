# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operations that the API door serves: module name -> (argument spec, function).

Imported once, in the controller's parent process, and shared by fork with every worker (with the Kubernetes client: its
import costs about a CPU-second).
"""

from __future__ import annotations

import importlib

_BASE = "ansible_collections.gpuops.lifecycle.plugins.module_utils"
_MODULES = {
    "all_reduce_perf": "validate.all_reduce_perf",
    "cordon": "node.cordon",
    "dcgmi_diag": "validate.dcgmi_diag",
    "drain": "drain.operation",
    "drain_info": "drain.info",
    "driver_upgrade": "change.driver_upgrade",
    "hold_info": "node.hold_info",
    "node_ready": "node.node_ready",
    "node_record": "evidence.node_record",
    "node_record_info": "evidence.node_record_info",
}


def load():
    """{name: (ARGUMENT_SPEC, run)} of every operation."""
    found = {}
    for name, path in _MODULES.items():
        module = importlib.import_module(f"{_BASE}.{path}")
        found[name] = (module.ARGUMENT_SPEC, module.run)
    return found


OPERATIONS = load()
