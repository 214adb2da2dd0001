# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls the drain operation on a small cluster and keeps what came of it."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import operation
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Task
from tests.unit.drain.shapes import pod

PARAMS = {key: spec.get("default") for key, spec in operation.ARGUMENT_SPEC.items()}


class Drain:
    """One call of the operation, and what came of it."""

    def __init__(self, cluster, check_mode=False, diff=False, **params):
        self.lines, self.warnings, self.error = [], [], None
        self.task = Task(
            "drain",
            {**PARAMS, "node": "gpu-node-a", "timeout_s": 20, **params},
            check_mode=check_mode,
            diff=diff,
            run="test",
            warn=self.warnings.append,
            progress=self.lines.append,
            kube=cluster,
        )
        cluster.guard = self.task.guard
        try:
            self.result = operation.run(self.task)
        except Failed as error:
            self.result, self.error = error.result, error.message
        self.outcomes = {p["name"]: p.get("outcome") for p in self.result.get("pods", [])}
        self.pods = {p["name"]: p for p in self.result.get("pods", [])}


def web(count=3, **more):
    return [pod(f"web-{n}", **more) for n in range(count)]


def names(cluster):
    return [name for name, _uid in cluster.evictions]
