#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dcgmi_diag
short_description: Run NVIDIA's GPU diagnostics on a node and judge the result
version_added: "0.1.0"
description:
  - Runs C(dcgmi diag) and reads its JSON, in every shape of DCGM 2, 3 and 4.
  - It passes only when the exit code is 0, there is exactly one complete document, every test of the level is there, and every
    expected GPU passes every test. A skipped test, a missing field, a warning on a pass, an empty or a cut output is
    V(unknown).
  - The node must be drained; other users of its GPUs make the result V(unknown).
  - A failure that was found stays a failure, even when the run came to no proper end afterwards.
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes
  - gpuops.lifecycle.node
  - gpuops.lifecycle.node.lock
options:
  level:
    description: Level of the diagnostics. Level 3 takes about 15 minutes on eight GPUs.
    type: int
    choices: [1, 2, 3, 4]
    default: 3
  expected_gpus:
    description: How many GPUs the node must have.
    type: int
    required: true
  expected_serials:
    description: Serials of all GPUs of the node, to prove that the result is about this machine.
    type: list
    elements: str
    default: []
  iterations:
    description: How often the diagnostics are run.
    type: int
    default: 1
  binary:
    description: The program, for O(executor=host) also as a path.
    type: str
    default: dcgmi
  image:
    description: Image with the program, for O(executor=pod).
    type: str
    default: nvcr.io/nvidia/cloud-native/dcgm:4.4.1-2-ubuntu22.04
  executor:
    description:
      - V(pod) runs a Job that is pinned to the node and keeps its log. V(host) runs O(binary) on the host itself, over the
        play's connection.
      - The Job needs the GPUs to be free, tolerates every C(NoSchedule) taint, and is deleted at its end. A Job that a killed
        run left behind is gone on with when it still does the same work, and removed otherwise.
    type: str
    choices: [pod, host]
    default: pod
  timeout_s:
    description:
      - Seconds after which the tool has hung, which is V(unknown). By default 300, 1260, 3600 and 16200 for the levels 1 to 4,
        times O(iterations).
    type: int
  image_pull_secret:
    description: Secret in the namespace C(gpuops-system) to pull O(image) with.
    type: str
  runtime_class:
    description: Runtime class of the pod.
    type: str
  fail_on_verdict:
    description: Fail the task on every verdict but a pass. Set it to V(false) only to record the verdict first.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Diagnose a drained node
  gpuops.lifecycle.dcgmi_diag:
    node: gpu-node-a
    expected_gpus: 8

- name: The short check, by the program on the host
  gpuops.lifecycle.dcgmi_diag:
    node: gpu-node-a
    executor: host
    binary: /usr/bin/dcgmi
    level: 1
    expected_gpus: 8
"""

RETURN = r"""
verdict:
  description: V(pass), V(fail) or V(unknown).
  type: str
  returned: always
  sample: pass
cause:
  description:
    - One word for a verdict that is not a pass.
    - V(hardware), V(reset), V(xid), V(missing), V(performance), V(environment), V(fabric), V(configuration) and
      V(unclassified) fail. V(output), V(not_run), V(zero_tests), V(incomplete), V(identity), V(expectation), V(iterations),
      V(contradiction), V(busy), V(not_tested), V(not_started), V(timeout), V(killed), V(vanished), V(no_log), V(api) and
      V(check_mode) are unknown.
  type: str
  returned: always
  sample: ""
reasons:
  description: Why it does not pass, in sentences.
  type: list
  elements: str
  returned: always
  sample: []
tool:
  description: What was run.
  type: str
  returned: always
  sample: dcgmi diag
command:
  description: The command.
  type: list
  elements: str
  returned: always
  sample: ["dcgmi", "diag", "-r", "3", "-j"]
rc:
  description: Exit code; V(null) when it is not known.
  type: int
  returned: when it was run
  sample: 0
started_at:
  description: When it began.
  type: str
  returned: when it was run
  sample: "2026-12-01T15:00:00Z"
finished_at:
  description: When it ended.
  type: str
  returned: when it was run
  sample: "2026-12-01T15:14:30Z"
duration_s:
  description: Seconds it took, the start of the pod included.
  type: float
  returned: when it was run
  sample: 870.4
output:
  description: The end of what the tool printed (at most 64 KiB); empty for a pass.
  type: str
  returned: when it was run
  sample: ""
version:
  description: Version of the tool.
  type: str
  returned: always
  sample: 4.4.1
level:
  description: The level that was run.
  type: int
  returned: when it was run
  sample: 3
driver_version:
  description: The driver the tool saw.
  type: str
  returned: always
  sample: 580.95.05
tests:
  description: The tests as the tool reported them.
  type: list
  elements: dict
  returned: always
  contains:
    name:
      description: Its name.
      type: str
      returned: always
      sample: memory
    verdict:
      description: What its results say.
      type: str
      returned: always
      sample: pass
    gpus_passed:
      description: On how many GPUs it passed.
      type: int
      returned: always
      sample: 8
    problems:
      description: Warnings and errors.
      type: list
      elements: str
      returned: always
      sample: []
gpus:
  description: The GPUs the tool named.
  type: list
  elements: dict
  returned: always
  contains:
    index:
      description: Its number, which may change at the next boot.
      type: int
      returned: always
      sample: 0
    serial:
      description: Its serial; empty where the tool gives none.
      type: str
      returned: always
      sample: "1650023000001"
    verdict:
      description: What the tests say about it.
      type: str
      returned: always
      sample: pass
    errors:
      description: Warnings and errors.
      type: list
      elements: str
      returned: always
      sample: []
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.dcgmi_diag import ARGUMENT_SPEC, run


def main() -> None:
    run_module("dcgmi_diag", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
