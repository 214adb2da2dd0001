#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_ready
short_description: Wait until a GPU node is ready after a change
version_added: "0.1.0"
description:
  - Waits until the node is Ready and carries no foreign taint, no operand is paused, the driver pod is of the newest revision
    and Ready, the validator ran after the driver, the GPU labels are fresh, the driver version and the number of GPUs are as
    wanted, all GPUs are healthy, the MIG configuration is applied, and the operator's upgrade is over.
  - What cannot be told is not ready. Only reads.
  - A cordon and the hold taint of this collection are no hindrance. Taints of others are, and are named.
  - In check mode the checks are returned as they are, without waiting.
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes.info
  - gpuops.lifecycle.node
  - gpuops.lifecycle.node.uid
options:
  expected_gpus:
    description: How many GPUs the node must offer.
    type: int
  driver_version:
    description: Driver version the node must run.
    type: str
  after:
    description:
      - A time such as C(2026-12-01T10:00:00Z). The validator and the GPU labels must be newer, for example than a reboot.
    type: str
  operator_namespace:
    description: Namespace of the GPU operator.
    type: str
    default: gpu-operator
  timeout_s:
    description: Seconds after which the node has not become ready.
    type: int
    default: 900
"""

EXAMPLES = r"""
- name: Wait for a node after its driver was changed
  gpuops.lifecycle.node_ready:
    node: gpu-node-a
    expected_gpus: 8
    driver_version: 580.95.05

- name: Wait for a node that was rebooted
  gpuops.lifecycle.node_ready:
    node: gpu-node-a
    expected_gpus: 8
    after: "{{ reboot_began }}"
"""

RETURN = r"""
ready:
  description: Whether every check that applies holds.
  type: bool
  returned: always
  sample: true
checks:
  description: The checks.
  type: list
  elements: dict
  returned: always
  contains:
    name:
      description: Its name.
      type: str
      returned: always
      sample: validator
    ok:
      description: Whether it holds; V(null) when that cannot be told.
      type: bool
      returned: always
      sample: true
    text:
      description: What was found.
      type: str
      returned: always
      sample: validator pod nvidia-operator-validator-x2x7q is Ready
    applies:
      description: Whether the check has a meaning on this node.
      type: bool
      returned: always
      sample: true
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.node_ready import ARGUMENT_SPEC, run


def main() -> None:
    run_module("node_ready", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
