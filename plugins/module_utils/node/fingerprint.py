# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node is, by domain: each domain a short hash over named inputs. Pure.

A test result holds for the state it was measured on. A domain whose hash differs makes the tests stale that depend on
it. Inputs that the API does not give are None and stay None: an unknown input is part of the state, not a match.
Volatile fields (heartbeats, counters, allocatable) are left out. Bump SCHEMA when a domain's inputs change.
"""

from __future__ import annotations

import hashlib
import json

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys

SCHEMA = 1


def inputs(node):
    """{domain: {input: value}} read from a Node object."""
    labels = node["metadata"].get("labels") or {}
    info = (node.get("status") or {}).get("nodeInfo") or {}
    capacity = (node.get("status") or {}).get("capacity") or {}
    return {
        "identity": {
            "node_uid": node["metadata"].get("uid"),
            "provider_id": (node.get("spec") or {}).get("providerID"),
            "system_uuid": info.get("systemUUID"),
            "product": labels.get(keys.PRODUCT_LABEL),
            "gpu_count": labels.get(keys.COUNT_LABEL),
        },
        "compute": {
            "driver": labels.get(keys.DRIVER_VERSION_LABEL),
            "kernel": info.get("kernelVersion"),
            "mig_config": labels.get(keys.MIG_CONFIG),
            "mig_strategy": labels.get(keys.MIG_STRATEGY),
            "gpu_capacity": capacity.get(keys.GPU_RESOURCE),
        },
        "plumbing": {
            "os_image": info.get("osImage"),
            "container_runtime": info.get("containerRuntimeVersion"),
            "kubelet": info.get("kubeletVersion"),
        },
    }


def domains(found):
    """{domain: "sha256 prefix of 16 hex digits"} for the inputs of `inputs()`."""
    return {domain: _hash(values) for domain, values in found.items()}


def of_node(node):
    """The fingerprint as a record stores it: schema, domains, inputs."""
    found = inputs(node)
    return {"schema": SCHEMA, "domains": domains(found), "inputs": found}


def difference(recorded, current):
    """Domains in which two stored fingerprints differ, sorted. Another schema, or a missing domain, differs."""
    if recorded.get("schema") != current["schema"]:
        return sorted(current["domains"])
    before = recorded.get("domains") or {}
    return sorted(d for d, digest in current["domains"].items() if before.get(d) != digest)


def _hash(values):
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
