#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cordon
short_description: Hold a node, or give back one's own hold
version_added: "0.1.0"
description:
  - A hold is an entry in the annotation C(lifecycle.gpuops.io/hold), a cordon, and the taint C(lifecycle.gpuops.io/hold)
    where the GPU operands tolerate it. It is taken in one write and given back in one write.
  - Several owners may hold a node. The last one out uncordons it, and only if one of them cordoned it. A cordon or taint
    that somebody else put on is never taken off.
  - With O(budget) the hold is taken under the pool's Lease, after counting every node of the pool that is out, whoever took
    it out.
  - A hold is given back on proof only, see O(proof).
  - A node on which another run is alive is refused; a run that shows no life any more is taken over, and that is recorded.
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes
  - gpuops.lifecycle.node
  - gpuops.lifecycle.node.uid
  - gpuops.lifecycle.node.lock
options:
  state:
    description: V(held) takes the hold, V(released) gives it back.
    type: str
    choices: [held, released]
    default: held
  owner:
    description: Under which name the node is held.
    type: str
    default: gpuops
  reason:
    description: Shown to whoever asks why the node is out. The default is O(change).
    type: str
    default: ""
  change:
    description: What the node is held for.
    type: str
    choices: [driver, firmware, join, mig, os, repair, retire, validate]
    default: validate
  taint:
    description:
      - V(auto) sets the hold taint unless a DaemonSet of the GPU operator would not tolerate it, because such a taint stops
        the operator's rollout on all nodes. V(always) and V(never) do not look.
    type: str
    choices: [auto, always, never]
    default: auto
  take_cordoned:
    description: Hold a node although somebody else has cordoned it. Their cordon stays.
    type: bool
    default: false
  budget:
    description: How many nodes of the pool may be out. Without it the hold is taken whatever is out.
    type: dict
    suboptions:
      max_unavailable:
        description:
          - A number, or a percentage of the pool, which rounds down. A percentage that comes to nothing allows one node while
            no other is out.
        type: str
        required: true
      max_parallel:
        description: How many nodes O(owner) may hold at once, failed ones included. V(0) for no limit of its own.
        type: int
        default: 0
      pool_label:
        description: Node label whose value is the pool.
        type: str
        default: nvidia.com/gpu.product
  proof:
    description:
      - V(record) demands that the newest qualification of this node passes, was made under this hold, and fits the node as it
        is now. V(unchanged) demands that the node is as it was when it was taken, and that no test has failed since.
    type: str
    choices: [record, unchanged]
    default: record
seealso:
  - module: gpuops.lifecycle.hold_info
  - module: gpuops.lifecycle.node_record
"""

EXAMPLES = r"""
- name: Hold a node for a driver upgrade, while at most a quarter of its pool is out
  gpuops.lifecycle.cordon:
    node: gpu-node-a
    change: driver
    reason: driver 580.95.05
    budget:
      max_unavailable: 25%

- name: Give it back; this needs a passing record
  gpuops.lifecycle.cordon:
    node: gpu-node-a
    state: released

- name: Give back a node to which nothing was done
  gpuops.lifecycle.cordon:
    node: gpu-node-a
    state: released
    proof: unchanged
"""

RETURN = r"""
hold:
  description: The hold of O(owner) after the task; empty when it has none.
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
schedulable:
  description: Whether the node is neither cordoned nor carries the hold taint.
  type: bool
  returned: always
  sample: false
node_uid:
  description: UID of the Node.
  type: str
  returned: always
  sample: 7c9e6679-7425-40de-944b-e07fc1f90ae7
proof:
  description: What released the node, in words.
  type: str
  returned: when O(state=released)
  sample: record gpu-node-a-000003 passes for the node as it is
record:
  description: Name of the record that released it.
  type: str
  returned: when O(state=released)
  sample: gpu-node-a-000003
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.cordon import ARGUMENT_SPEC, run


def main() -> None:
    run_module("cordon", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
