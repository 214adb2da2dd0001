#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: all_reduce_perf
short_description: Measure the NCCL bandwidth between the GPUs of a node and judge it
version_added: "0.1.0"
description:
  - Runs C(all_reduce_perf) of nccl-tests and judges the bus bandwidth of the largest size against the site's limit.
  - It passes only when the run came to its end, no value is wrong, as many GPUs took part as were asked for, the largest size
    was measured, and the lower of both placements reaches O(min_busbw_gbps). The average over all sizes is never used.
author:
  - The gpuops.lifecycle authors (@gpuops)
extends_documentation_fragment:
  - gpuops.lifecycle.connection
  - gpuops.lifecycle.attributes
  - gpuops.lifecycle.node
  - gpuops.lifecycle.node.lock
options:
  gpus:
    description: How many GPUs take part.
    type: int
    required: true
  min_busbw_gbps:
    description:
      - The limit in GB/s of bus bandwidth. Without one the bandwidth cannot pass. Limits are a site's own, since cards of one
        model differ by 5 to 10 % between sites.
    type: float
  limit_origin:
    description: Where the limit comes from, for the record.
    type: str
    default: site
  min_bytes:
    description: The smallest size.
    type: str
    default: "8"
  max_bytes:
    description:
      - The largest size. The one judged is the last that the steps from O(min_bytes) reach.
    type: str
    default: 8G
  factor:
    description: Factor from one size to the next.
    type: int
    default: 2
  env:
    description:
      - Variables of NCCL to set for the run (C(NCCL_*), but not C(NCCL_TESTS_*)). They are returned, since they change what
        is measured.
    type: dict
    default: {}
  binary:
    description: The program, for O(executor=host) also as a path.
    type: str
    default: all_reduce_perf
  image:
    description: Image with the program, needed for O(executor=pod).
    type: str
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
    description: Seconds after which the tool has hung, which is V(unknown). By default 900.
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
- name: Measure a drained node
  gpuops.lifecycle.all_reduce_perf:
    node: gpu-node-a
    gpus: 8
    min_busbw_gbps: 440
    image: registry.example.com/nccl-tests:2.19.6
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
    - V(bandwidth), V(corruption), V(hardware) and V(missing) fail. V(truncated), V(unchecked), V(ranks), V(size), V(no_rows),
      V(no_limit), V(fabric), V(busy), V(not_run), V(contradiction), V(not_started), V(timeout), V(killed), V(vanished),
      V(no_log), V(api) and V(check_mode) are unknown.
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
  sample: all_reduce_perf
command:
  description: The command.
  type: list
  elements: str
  returned: always
  sample: ["all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "8"]
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
  returned: when it was run
  sample: 2.19.6
busbw_gbps:
  description: Bus bandwidth of the largest size, the lower of both placements; V(null) when nothing was measured.
  type: float
  returned: always
  sample: 481.07
average_busbw_gbps:
  description: The tool's average over all sizes, for information.
  type: float
  returned: when it was run
  sample: 361.26
curve:
  description: Bus bandwidth by size.
  type: list
  elements: dict
  returned: always
  contains:
    bytes:
      description: The size.
      type: int
      returned: always
      sample: 8589934592
    busbw_gbps:
      description: The lower of both placements.
      type: float
      returned: always
      sample: 481.07
env:
  description: What was set for NCCL.
  type: dict
  returned: always
  sample: {}
ranks:
  description: How many GPUs took part.
  type: int
  returned: when it was run
  sample: 8
baseline:
  description: What it was held against.
  type: dict
  returned: always
  contains:
    min_busbw_gbps:
      description: The limit.
      type: float
      returned: always
      sample: 440
    origin:
      description: Where it comes from.
      type: str
      returned: always
      sample: site
"""

from ansible_collections.gpuops.lifecycle.plugins.module_utils.door import run_module
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate.all_reduce_perf import ARGUMENT_SPEC, run


def main() -> None:
    run_module("all_reduce_perf", ARGUMENT_SPEC, run)


if __name__ == "__main__":
    main()
