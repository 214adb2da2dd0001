#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hold_info
short_description: Say why a node is out and what would bring it back
version_added: "0.1.0"
description:
  - Lists every reason that keeps a node out, whose it is, since when, and what ends it, and whether the node's evidence holds
    for its present state. Only reads.
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes.info
  - gpuops.lifecycle.node
options:
  owner:
    description: Whose hold is shown as RV(hold).
    type: str
    default: gpuops
"""

EXAMPLES = r"""
- name: Why is it out
  gpuops.lifecycle.hold_info:
    node: gpu-node-a
  register: why

- name: Show it
  ansible.builtin.debug:
    msg: "{{ why.text }}"
"""

RETURN = r"""
hold:
  description: The hold of O(owner); empty when it has none.
  type: dict
  returned: always
  contains:
    owner:
      description: Who holds.
      type: str
      returned: when held
      sample: gpuops
    reason:
      description: Why, in words.
      type: str
      returned: when held
      sample: driver
    change:
      description: What it is held for.
      type: str
      returned: when held
      sample: driver
    run:
      description: The playbook run that works on it, or did last.
      type: str
      returned: when held
      sample: bastion-4711-1796140800
    since:
      description: When it was taken, by the API server's clock.
      type: str
      returned: when held
      sample: "2026-12-01T15:00:00Z"
    cordoned_by_us:
      description: Whether giving it back uncordons the node.
      type: bool
      returned: when held
      sample: true
    unschedulable_before:
      description: Whether somebody else had cordoned the node before.
      type: bool
      returned: when held
      sample: false
    fingerprint:
      description: The node's state when it was taken, a short hash by domain.
      type: dict
      returned: when held
      sample: {"compute": "4f0a1be77c5d2e10"}
    qualification_before:
      description: The qualification label when it was taken.
      type: str
      returned: when held
      sample: qualified
    taken_over_from:
      description: The run that held before this one.
      type: str
      returned: when another run of the same owner was gone on with
      sample: bastion-4242-1796130000
others:
  description: Holds of other owners, with the same keys.
  type: list
  elements: dict
  returned: always
  sample: []
releasable:
  description: Whether O(owner) could give its hold back now with C(proof=record).
  type: bool
  returned: always
  sample: false
reasons:
  description: Everything that keeps the node out.
  type: list
  elements: dict
  returned: always
  contains:
    kind:
      description: V(hold), V(cordon), V(taint), V(condition) or V(operator).
      type: str
      returned: always
      sample: hold
    whose:
      description: Who put it on, as far as its marks tell.
      type: str
      returned: always
      sample: gpuops
    since:
      description: Since when, empty when that is not known.
      type: str
      returned: always
      sample: "2026-12-01T15:00:00Z"
    why:
      description: Why, in words.
      type: str
      returned: always
      sample: driver 580.95.05 (change driver, run bastion-4711-1796140800)
    ends:
      description: What would end it.
      type: str
      returned: always
      sample: "a passing validation: run the command again that holds it; it goes on where it stopped"
schedulable:
  description: Whether nothing keeps new work off the node.
  type: bool
  returned: always
  sample: false
foreign_cordon:
  description: Whether it is cordoned and none of our holds did that.
  type: bool
  returned: always
  sample: false
evidence:
  description:
    - V(current) when the newest qualification passes and fits the node as it is; V(stale) when it passed for another state;
      V(fail) or V(unknown) as it says; V(none) without one.
  type: str
  returned: always
  sample: current
record:
  description: Name of the newest record that judges the node.
  type: str
  returned: always
  sample: gpu-node-a-000003
record_reason:
  description: What that record gives as its reason.
  type: str
  returned: always
  sample: ""
driver:
  description: Driver version of the node's label.
  type: str
  returned: always
  sample: 580.95.05
product:
  description: GPU product of the node's label.
  type: str
  returned: always
  sample: NVIDIA-H100-80GB-HBM3
gpus:
  description: Number of GPUs of the node's label.
  type: int
  returned: always
  sample: 8
node_uid:
  description: UID of the Node.
  type: str
  returned: always
  sample: 7c9e6679-7425-40de-944b-e07fc1f90ae7
text:
  description: One line per reason, ready to show.
  type: list
  elements: str
  returned: always
  sample: ["gpu-node-a: in service; evidence current"]
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.hold_info import ARGUMENT_SPEC, run


def main() -> None:
    run_module("hold_info", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
