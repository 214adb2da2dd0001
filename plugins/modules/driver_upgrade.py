#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_upgrade
short_description: Change the driver of one held and drained node through the GPU operator
version_added: "0.1.0"
description:
  - Sets the version in the ClusterPolicy once, after putting the operator's skip label on every node, so that no node starts
    before its turn.
  - Arms the node, so that the operator leaves it cordoned in every outcome, takes its skip label off and follows the operator
    until driver pod, validator, version label and upgrade state agree.
  - The operator opens nodes by itself also when their upgrade failed. An armed node stays held.
  - Each step is decided from what the cluster shows, so a run that was killed is gone on with by running it again.
  - A node that is not cordoned or on which GPU workloads still run is refused before anything is changed. So is a ClusterPolicy
    under which the operator upgrades nothing, and a rollout that would meet another node in the middle of an upgrade.
  - A node in C(upgrade-failed) whose driver pod is of an older revision is put back to C(upgrade-required) once, as the operator
    documents, for example after another O(version) was chosen.
  - Skip labels of nodes that nobody asked for stay, because taking one off starts the upgrade of its node. They are listed in
    RV(left_skipped). A skip label that somebody else set is never touched.
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes
  - gpuops.lifecycle.node
  - gpuops.lifecycle.node.uid
  - gpuops.lifecycle.node.lock
options:
  version:
    description: The driver version that is wanted.
    type: str
    required: true
  policy:
    description: Name of the ClusterPolicy. The default is the only one there is.
    type: str
  accept_gitops:
    description:
      - Change a ClusterPolicy also when Argo CD or Flux says that it owns it. They undo the change unless their reconciliation
        is paused or their source says the same.
    type: bool
    default: false
  owner:
    description: Under which name the node is held. A node of this owner that is found open is an error.
    type: str
    default: gpuops
  operator_namespace:
    description: Namespace of the GPU operator.
    type: str
    default: gpu-operator
  timeout_s:
    description:
      - Seconds after which the upgrade of the node has failed. The operator may lose two minutes at each of two steps, and
        gives its validator ten.
      - Each of the operator's states has a limit of its own beside it, from the ClusterPolicy's time-outs and these delays.
    type: int
    default: 2700
notes:
  - In check mode the node counts as held and drained, RV(steps) tells what would be done, and nothing is written.
seealso:
  - module: gpuops.lifecycle.cordon
  - module: gpuops.lifecycle.drain
  - module: gpuops.lifecycle.node_ready
"""

EXAMPLES = r"""
- name: Change the driver of a held and drained node
  gpuops.lifecycle.driver_upgrade:
    node: gpu-node-a
    version: 580.95.05

- name: Go back to the driver before, on a node whose upgrade failed
  gpuops.lifecycle.driver_upgrade:
    node: gpu-node-a
    version: 575.57.08
"""

RETURN = r"""
version:
  description: The driver version of the node.
  type: dict
  returned: always
  contains:
    before:
      description: Before the task.
      type: str
      returned: always
      sample: 575.57.08
    after:
      description: After it; in check mode what it would be, after a failure what the node reported last.
      type: str
      returned: always
      sample: 580.95.05
states:
  description: What the operator went through, in order.
  type: list
  elements: dict
  returned: always
  contains:
    state:
      description: The operator's state.
      type: str
      returned: always
      sample: pod-restart-required
    cordoned:
      description: Whether the node was cordoned.
      type: bool
      returned: always
      sample: true
    armed:
      description: Whether the operator will leave it cordoned.
      type: bool
      returned: always
      sample: true
    at_s:
      description: Seconds since the task began.
      type: float
      returned: always
      sample: 3.4
left_skipped:
  description:
    - Other nodes that carry the skip label that this collection set. It stays, because their upgrade would start without it.
  type: list
  elements: str
  returned: success
  sample: [gpu-node-b]
steps:
  description: What would be done, in order; empty when there is nothing to do.
  type: list
  elements: str
  returned: in check mode
  sample: ["take the skip label off", "follow the operator until driver pod, validator and version label agree"]
nudges:
  description: How often the operator was woken by a label, because everything was ready and it had not looked.
  type: int
  returned: always
  sample: 1
duration_s:
  description: Seconds it took.
  type: float
  returned: always
  sample: 184.2
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change.driver_upgrade import ARGUMENT_SPEC, run
from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module


def main() -> None:
    run_module("driver_upgrade", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
