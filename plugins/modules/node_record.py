#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_record
short_description: Append a record to a node's ledger
version_added: "0.1.0"
description:
  - Creates one NodeRecord with the node's fingerprint, chained to the one before it. Records cannot be changed.
  - The verdict of a C(Qualification) is made from its tests and cannot be given; it passes only when there are tests and all
    of them pass.
  - A verdict other than a pass is also put on the node as the label C(lifecycle.gpuops.io/qualification).
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes
  - gpuops.lifecycle.node
  - gpuops.lifecycle.node.uid
  - gpuops.lifecycle.node.lock
options:
  kind:
    description: What is recorded.
    type: str
    choices: [Qualification, Reassessment, Change, Fault, Repair, Retirement, Waiver]
    default: Qualification
  verdict:
    description: The verdict of a record that is not a qualification.
    type: str
    choices: [pass, fail, unknown]
    default: unknown
  change:
    description: What was done to the node before.
    type: dict
    suboptions:
      event:
        description: The kind of change, such as C(driver).
        type: str
      from:
        description: What was there before.
        type: str
      to:
        description: What is there now.
        type: str
  tests:
    description:
      - The tests, each with at least C(name) and C(verdict); C(reasons), C(tool), C(toolVersion), C(startedAt),
        C(finishedAt), C(measured), C(threshold) and C(thresholdOrigin) are kept too.
    type: list
    elements: dict
    default: []
  gpus:
    description: The GPUs the tests saw, with C(index), C(serial) and C(verdict).
    type: list
    elements: dict
    default: []
  reason:
    description: Why, in words. The default names the tests that did not pass.
    type: str
    default: ""
  owner:
    description: Who answers for it.
    type: str
    default: gpuops
seealso:
  - module: gpuops.lifecycle.node_record_info
"""

EXAMPLES = r"""
- name: Record a validation
  gpuops.lifecycle.node_record:
    node: gpu-node-a
    change:
      event: driver
      from: 575.57.08
      to: 580.95.05
    tests:
      - name: dcgmi diag level 3
        verdict: pass
      - name: all_reduce_perf
        verdict: pass
  register: recorded
"""

RETURN = r"""
record:
  description: The NodeRecord as created, or in check mode as it would be.
  type: dict
  returned: always
  sample: {"kind": "NodeRecord", "metadata": {"name": "gpu-node-a-000003"}, "spec": {"verdict": "pass"}}
verdict:
  description: Its verdict.
  type: str
  returned: always
  sample: pass
reason:
  description: Its reason; empty for a pass.
  type: str
  returned: always
  sample: ""
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.evidence.node_record import ARGUMENT_SPEC, run


def main() -> None:
    run_module("node_record", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
