# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change a Node by deciding on what was read: read, decide, patch on that version, and read again when it moved."""

from __future__ import annotations

import random

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import (
    Conflict,
    NotFound,
    Unavailable,
    Unreachable,
)
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

ATTEMPTS = 12


def read_node(task, name, uid=None):
    """The Node. Failed when there is none of that name, or when it was re-created (another UID than the one given)."""
    try:
        node = task.kube.get(paths.node(name))
    except NotFound as error:
        if error.details.get("kind") not in (None, "nodes"):
            raise
        raise Failed(
            f"There is no node {name} in the cluster {task.kube.host}. Nothing was changed. kubectl get nodes lists "
            "those there are; an inventory host needs the name of its Node (or gpuops_node)."
        ) from error
    if uid and node["metadata"]["uid"] != uid:
        raise Failed(
            f"The node {name} is not the one this began with: its UID is {node['metadata']['uid']}, not {uid}. Somebody "
            "has re-created it; what is known of the old one says nothing about it. Take it in again from join."
        )
    return node


def update_node(task, name, decide, uid=None):
    """Apply decide(node) -> merge patch (with metadata.resourceVersion) or None, on exactly the version decided on.

    Returns (before, after); they are the same object when nothing was to do. In check mode nothing is sent, and `after`
    is `before`. Sets task.changed.
    """
    for attempt in range(1, ATTEMPTS + 1):
        node = read_node(task, name, uid)
        patch = decide(node)
        if patch is None:
            return node, node
        if task.check_mode:
            task.changed = True
            return node, node
        try:
            after = task.kube.patch(paths.node(name), patch)
        except (Conflict, Unavailable, Unreachable):
            if attempt == ATTEMPTS:
                raise
            task.sleep(random.uniform(0.05, 0.1) * 2 ** min(attempt, 5))
            continue
        task.changed = True
        return node, after
    raise AssertionError("unreachable")
