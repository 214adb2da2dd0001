#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drain_info
short_description: Say what a drain of a node would meet
version_added: "0.1.0"
description:
  - Gives a verdict on each pod of a node, and on the node, from what the cluster shows now, with the numbers behind it.
    Only reads.
  - Budgets are observations. Others may use what is free now, and some operators move their pods when an eviction is
    refused, so a verdict is a forecast.
  - A missing permission makes things V(unknown), never V(free), and does not fail the task.
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes.info
  - gpuops.lifecycle.node
  - gpuops.lifecycle.node.uid
options:
  grace_period_s:
    description:
      - Seconds that each pod gets to end, instead of its own C(terminationGracePeriodSeconds).
      - V(0) ends pods at once. Jobs that save a checkpoint when they are told to end lose what they did since the last.
    type: int
  delete_emptydir_data:
    description:
      - Evict pods that keep data in an C(emptyDir) on the node's disk; the data is lost.
      - Volumes with C(medium=Memory) (the C(/dev/shm) of most GPU jobs) end with the process in any case and do not count.
    type: bool
    default: false
  evict_unmanaged:
    description:
      - Evict pods that no controller will bring back, those of a DaemonSet that no longer exists included.
    type: bool
    default: false
seealso:
  - module: gpuops.lifecycle.drain
"""

EXAMPLES = r"""
- name: What would a drain meet
  gpuops.lifecycle.drain_info:
    node: gpu-node-a
  register: forecast

- name: Show it
  ansible.builtin.debug:
    var: forecast.table

- name: Go no further when something stands in the way
  ansible.builtin.assert:
    that: forecast.verdict in ["free", "now", "serial"]
    fail_msg: "{{ forecast.blockers }}"
"""

RETURN = r"""
pods:
  description: The pods of the node, by namespace and name.
  type: list
  elements: dict
  returned: always
  contains:
    namespace:
        description: Its namespace.
        type: str
        returned: always
        sample: inference
    name:
        description: Its name.
        type: str
        returned: always
        sample: vllm-chat-7d9c5b6f4d-x2x7q
    uid:
        description: Its UID.
        type: str
        returned: always
        sample: 0f4a3c52-8d0b-4b7e-9a53-0f3d3f0b7c11
    owner:
        description: What controls it. Both values are empty for an unmanaged pod.
        type: dict
        returned: always
        sample: {"kind": "ReplicaSet", "name": "vllm-chat-7d9c5b6f4d"}
        contains:
          kind:
            description: Kind of the controller.
            type: str
            returned: always
            sample: ReplicaSet
          name:
            description: Name of the controller.
            type: str
            returned: always
            sample: vllm-chat-7d9c5b6f4d
    verdict:
        description:
          - V(skip) stays on the node (static pod, DaemonSet, finished).
          - V(free) has no disruption budget in its way, or is leaving already.
          - V(now) fits its budget.
          - V(serial) shares its budget with more pods of this node than it allows at once.
          - V(blocked_now) waits for a budget that allows nothing at the moment.
          - V(blocked_by_spec) needs an option, or a budget that can never allow it at its number of replicas.
          - V(misconfigured) is covered by two budgets, or by one that cannot be computed.
          - V(unknown) cannot be said.
        type: str
        returned: always
        sample: now
    blocked_by:
        description: What stands in the way, each as kind and name.
        type: list
        elements: str
        returned: always
        sample: ["pdb inference/vllm-chat"]
    sentence:
        description: The verdict in words, with its numbers.
        type: str
        returned: always
        sample: fits budget vllm-chat (1 allowed)
    grace_s:
        description: Seconds the pod may take to end.
        type: int
        returned: always
        sample: 30
    gpus:
        description: GPUs and MIG slices it has reserved.
        type: int
        returned: always
        sample: 8
verdict:
  description: The node's verdict, which is that of its worst pod; V(free) when there is nothing to evict.
  type: str
  returned: always
  sample: now
estimate_s:
  description:
    - Upper bound of the drain in seconds, as the longest grace times the rounds of the tightest budget. The start of
      replacements is not in it. V(null) while something blocks the drain.
  type: int
  returned: always
  sample: 600
blockers:
  description: What would keep the drain from ending, one entry per pod (or per missing permission, with an empty pod).
  type: list
  elements: dict
  returned: always
  sample: []
  contains:
    pod:
      description: Namespace and name.
      type: str
      returned: always
      sample: inference/vllm-chat-7d9c5b6f4d-x2x7q
    reason:
      description: Why.
      type: str
      returned: always
      sample: "budget vllm-chat allows no disruption: at 1 replicas it can never allow one (needs 1 healthy, has 1 of 1)"
    remedy:
      description: What helps.
      type: str
      returned: always
      sample: add a replica, or loosen budget inference/vllm-chat
table:
  description: One line of text per pod.
  type: list
  elements: str
  returned: always
  sample: ["inference/vllm-chat-7d9c5b6f4d-x2x7q now: fits budget vllm-chat (1 allowed)"]
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.info import ARGUMENT_SPEC, run


def main() -> None:
    run_module("drain_info", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
