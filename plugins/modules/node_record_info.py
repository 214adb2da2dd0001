#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_record_info
short_description: Read a node's ledger and check its chain
version_added: "0.1.0"
description:
  - Lists the NodeRecords of a node, newest first, checks that each follows the one before it unaltered, and says which record
    proves the node as it is now. Only reads.
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes.info
options:
  node:
    description: Name of the Node; its records are found also after the Node is gone.
    type: str
    required: true
  kinds:
    description: Only records of these kinds.
    type: list
    elements: str
    default: []
  limit:
    description: How many records at most.
    type: int
    default: 20
seealso:
  - module: gpuops.lifecycle.node_record
"""

EXAMPLES = r"""
- name: Read the ledger
  gpuops.lifecycle.node_record_info:
    node: gpu-node-a
  register: ledger

- name: It must not have been tampered with
  ansible.builtin.assert:
    that: ledger.chain.intact
"""

RETURN = r"""
records:
  description: The NodeRecords, newest first.
  type: list
  elements: dict
  returned: always
  sample: [{"metadata": {"name": "gpu-node-a-000003"}, "spec": {"kind": "Qualification", "verdict": "pass"}}]
total:
  description: How many there are in all.
  type: int
  returned: always
  sample: 3
chain:
  description: Whether each record follows the one before it.
  type: dict
  returned: always
  contains:
    intact:
      description: Whether nothing is wrong.
      type: bool
      returned: always
      sample: true
    problems:
      description: What is wrong, one sentence each.
      type: list
      elements: str
      returned: always
      sample: []
current:
  description: Name of the passing record that fits the node as it is now; empty when there is none.
  type: str
  returned: always
  sample: gpu-node-a-000003
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.evidence.node_record_info import ARGUMENT_SPEC, run


def main() -> None:
    run_module("node_record_info", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
