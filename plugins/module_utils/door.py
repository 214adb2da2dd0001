# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module door: an operation run by AnsibleModule, on the machine Ansible sent the module to."""

from __future__ import annotations

import os
import socket

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import ApiError
from ansible_collections.gpuops.lifecycle.plugins.module_utils.outcome import failure
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Task


def run_module(name, argument_spec, run):
    """Build the module, hand the operation its task, end with its result."""
    module = AnsibleModule(argument_spec=argument_spec, supports_check_mode=True)
    task = Task(
        name,
        module.params,
        check_mode=module.check_mode,
        diff=module._diff,
        run=f"{socket.gethostname()}-{os.getpid()}",
        warn=module.warn,
    )
    try:
        result = run(task)
    except (Failed, ApiError) as error:
        module.fail_json(**failure(task, error))
    # Said outright: a result with an `rc` other than 0 counts as failed otherwise, whatever the operation decided.
    module.exit_json(**{"failed": False, "changed": task.changed, **result})
