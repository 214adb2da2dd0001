# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the NodeRecords of a node: its ledger, oldest first."""

from __future__ import annotations

import hashlib
import re

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys

NODE_LABEL = f"{keys.DOMAIN}/node"
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def label_value(text):
    """A node name as a label value: itself, or a hash where it is too long (a node name may have 253 characters)."""
    if LABEL_VALUE.fullmatch(text):
        return text
    return "sha256-" + hashlib.sha256(text.encode()).hexdigest()[:40]


def name_of(node_name, sequence):
    """Record names count up, so that two writers cannot both append after the same record."""
    return f"{node_name}-{sequence:06d}"


def sequence_of(record):
    return int(record["metadata"]["name"].rpartition("-")[2])


def of_node(kube, node_name):
    """All records of the node (also of earlier nodes of that name), oldest first."""
    found = kube.list(paths.noderecords(), labelSelector=f"{NODE_LABEL}={label_value(node_name)}")
    return sorted((r for r in found if r["spec"]["node"]["name"] == node_name), key=sequence_of)
