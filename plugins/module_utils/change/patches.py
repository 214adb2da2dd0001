# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Merge patches on the node that is upgraded, each None where it must not or need not be written. Pure."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import driver_steps
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys, operands


def without_state(node):
    """Only from upgrade-required and unarmed: in flight the label is the operator's own."""
    if _state(node) != driver_steps.REQUIRED or keys.INITIAL_UNSCHEDULABLE in _annotations(node):
        return None
    return _patch(node, {keys.UPGRADE_STATE: None})


def with_retry(node):
    """The retry that NVIDIA documents for a failed node."""
    if _state(node) != driver_steps.FAILED:
        return None
    return _patch(node, {keys.UPGRADE_STATE: driver_steps.REQUIRED})


def with_nudge(node, value):
    """value: of the skip label, None to take the nudge off again. A real skip label is left alone."""
    if operands.labels_of(node).get(keys.UPGRADE_SKIP) in ("true", value):
        return None
    return _patch(node, {keys.UPGRADE_SKIP: value})


def without_skip(node):
    """Take our own skip label off, and only ours; also a nudge that a killed run left."""
    ours = keys.SKIP_SET_BY in _annotations(node)
    if not ours and not operands.labels_of(node).get(keys.UPGRADE_SKIP, "").startswith(driver_steps.NUDGE):
        return None
    return _patch(node, {keys.UPGRADE_SKIP: None}, {keys.SKIP_SET_BY: None} if ours else {})


def _state(node):
    return operands.labels_of(node).get(keys.UPGRADE_STATE)


def _annotations(node):
    return node["metadata"].get("annotations") or {}


def _patch(node, labels, annotations=None):
    metadata = {"resourceVersion": node["metadata"]["resourceVersion"], "labels": labels}
    return {"metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}
