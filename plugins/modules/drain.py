#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drain
short_description: Evict the pods of a held node within their disruption budgets
version_added: "0.1.0"
description:
  - Evicts every pod of a node that is held (M(gpuops.lifecycle.cordon)) or cordoned, and waits until they are gone.
  - All pods are seen at once. Those without a budget go together; of those under a budget as many as it shows to allow,
    and the next ones at the moment it allows more. The node, its pods and all budgets are watched, not polled.
  - A pod is known by its UID, which is compared before each eviction; a successor of the same name is never touched.
  - Refused evictions are tried again until the deadline, except where asking again is useless (no permission, invalid
    request). Such pods fail the task after the others have gone.
  - When pods are left at the deadline the task fails, names each with what blocks it, and leaves the node held.
  - Nothing is evicted while a pod needs a decision (O(delete_emptydir_data), O(evict_unmanaged)), or when the node is not
    held. A node that somebody opens during its drain is not drained further.
  - Static pods, pods of DaemonSets and finished pods stay.
  - In check mode nothing is written, and the result is that of M(gpuops.lifecycle.drain_info).
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes
  - gpuops.lifecycle.node
  - gpuops.lifecycle.node.uid
  - gpuops.lifecycle.node.lock
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
  owner:
    description:
      - Drain only while this owner holds the node. Without it any hold, and any cordon, will do.
    type: str
  timeout_s:
    description:
      - Seconds after which the drain has failed.
      - The default is the longest grace it has to wait for, and 600 seconds.
      - V(0) evicts what may go at once and waits for nothing.
    type: int
  parallel:
    description: How many evictions are sent at a time.
    type: int
    default: 16
seealso:
  - module: gpuops.lifecycle.cordon
  - module: gpuops.lifecycle.drain_info
"""

EXAMPLES = r"""
- name: Hold the node
  gpuops.lifecycle.cordon:
    node: gpu-node-a
    reason: driver 580.95.05
    change: driver

- name: Drain it
  gpuops.lifecycle.drain:
    node: gpu-node-a

- name: Drain a node whose scratch data may go, within an hour
  gpuops.lifecycle.drain:
    node: gpu-node-b
    delete_emptydir_data: true
    timeout_s: 3600
"""

RETURN = r"""
pods:
  description: Each pod that was seen on the node. RV(pods[].outcome) and what follows it are not there in check mode.
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
    outcome:
        description:
          - V(evicted) was evicted by this task and is gone.
          - V(gone) left without it.
          - V(skipped) stays on the node.
          - V(left) was still there at the end.
          - V(failed) was refused for good, needs a decision, or came back each time.
        type: str
        returned: when not in check mode
        sample: evicted
    attempts:
        description: Evictions sent for it.
        type: int
        returned: when not in check mode
        sample: 1
    blocked_by:
        description: What keeps it there, each as kind and name (pdb, option, finalizer, webhook). Empty once it is gone.
        type: list
        elements: str
        returned: always
        sample: []
    last_error:
        description: The API's last refusal, in its own words, of a pod that is still there.
        type: str
        returned: when not in check mode
        sample: ""
    sentence:
        description: The verdict in words, with its numbers.
        type: str
        returned: in check mode
        sample: fits budget vllm-chat (1 allowed)
    grace_s:
        description: Seconds the pod may take to end.
        type: int
        returned: in check mode
        sample: 30
    gpus:
        description: GPUs and MIG slices it has reserved.
        type: int
        returned: in check mode
        sample: 8
duration_s:
  description: Seconds the drain took.
  type: float
  returned: when not in check mode and the node was held
  sample: 34.2
requests:
  description: Requests sent to the API server.
  type: int
  returned: when not in check mode and the node was held
  sample: 14
deadline_s:
  description: Seconds after which it would have failed.
  type: int
  returned: when not in check mode and the node was held
  sample: 1200
verdict:
  description: The node's verdict, which is that of its worst pod; V(free) when there is nothing to evict.
  type: str
  returned: in check mode
  sample: now
estimate_s:
  description:
    - Upper bound of the drain in seconds, as the longest grace times the rounds of the tightest budget. The start of
      replacements is not in it. V(null) while something blocks the drain.
  type: int
  returned: in check mode
  sample: 600
blockers:
  description: What would keep the drain from ending, one entry per pod (or per missing permission, with an empty pod).
  type: list
  elements: dict
  returned: in check mode
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
  returned: in check mode
  sample: ["inference/vllm-chat-7d9c5b6f4d-x2x7q now: fits budget vllm-chat (1 allowed)"]
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.operation import ARGUMENT_SPEC, run


def main() -> None:
    run_module("drain", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
