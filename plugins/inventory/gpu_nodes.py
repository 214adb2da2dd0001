# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_nodes
short_description: GPU nodes of a Kubernetes cluster as inventory
version_added: "0.1.0"
author: The gpuops.lifecycle authors (@gpuops)
description:
  - Lists the nodes that carry GPUs, with groups by product, pool, stage and qualification.
  - Each host has its labels and what decides about it as variables. No connection to a host is opened.
  - The file name must end in C(gpu_nodes.yml) or C(gpu_nodes.yaml).
options:
  plugin:
    description: Names this plugin.
    required: true
    choices: [gpuops.lifecycle.gpu_nodes, gpu_nodes]
  kubeconfig:
    description:
      - Kubeconfig of the cluster; a relative path is relative to the inventory file.
      - A template is allowed. Without it E(KUBECONFIG), C(~/.kube/config) and a pod's service account are tried.
    type: str
    env:
      - name: K8S_AUTH_KUBECONFIG
  context:
    description: Context of the kubeconfig.
    type: str
    env:
      - name: K8S_AUTH_CONTEXT
  label_selector:
    description: Which nodes are GPU nodes.
    type: str
    default: nvidia.com/gpu.present=true
  pool_label:
    description: Node label whose value is the pool (group C(pool_VALUE)).
    type: str
    default: nvidia.com/gpu.product
  server_version_must_contain:
    description:
      - Refuse a cluster whose version does not contain this text. The demo inventory uses it so that a rehearsal can
        never reach a real cluster.
    type: str
    default: ""
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
requirements:
  - kubernetes (Python client, on the controller)
"""

EXAMPLES = r"""
# inventory/gpu_nodes.yml
plugin: gpuops.lifecycle.gpu_nodes
kubeconfig: ~/.kube/prod
pool_label: example.com/pool
compose:
  ansible_host: gpuops_address
keyed_groups:
  - key: gpuops_labels['topology.kubernetes.io/zone']
    prefix: zone
"""

import os

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.client import Kube
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import ApiError
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import budget, hold, keys
from ansible_collections.gpuops.lifecycle.plugins.module_utils.outcome import sentence


def host_variables(node, pool_label):
    """What a play may decide on, read from a Node: plain values only."""
    metadata, labels = node["metadata"], node["metadata"].get("labels") or {}
    status = node.get("status") or {}
    addresses = {entry["type"]: entry["address"] for entry in status.get("addresses") or []}
    try:
        owners = [entry["owner"] for entry in hold.entries(node)]
    except hold.Unreadable:
        owners = ["unreadable"]
    return {
        "gpuops_node": metadata["name"],
        "gpuops_node_uid": metadata["uid"],
        "gpuops_labels": labels,
        "gpuops_product": labels.get(keys.PRODUCT_LABEL, ""),
        "gpuops_pool": labels.get(pool_label, ""),
        "gpuops_gpu_count": int(labels.get(keys.COUNT_LABEL) or 0),
        "gpuops_driver": labels.get(keys.DRIVER_VERSION_LABEL, ""),
        "gpuops_stage": labels.get(keys.STAGE_LABEL, ""),
        "gpuops_qualification": labels.get(keys.QUALIFICATION_LABEL, ""),
        "gpuops_holds": owners,
        "gpuops_schedulable": not hold.is_cordoned(node),
        "gpuops_ready": budget.is_ready(node),
        "gpuops_address": addresses.get("InternalIP") or addresses.get("Hostname") or metadata["name"],
    }


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "gpuops.lifecycle.gpu_nodes"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(("gpu_nodes.yml", "gpu_nodes.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        key = self.get_cache_key(path)
        use_cache = self.get_option("cache") and cache
        nodes = self._cache.get(key) if use_cache else None
        if nodes is None:
            nodes = self._nodes(path)
            if self.get_option("cache"):
                self._cache[key] = nodes
        for node in nodes:
            self._add(node)

    def _nodes(self, path):
        kubeconfig = self.get_option("kubeconfig")
        if kubeconfig:
            kubeconfig = self.templar.template(kubeconfig)
        if kubeconfig:
            kubeconfig = os.path.join(os.path.dirname(path), os.path.expanduser(kubeconfig))
        try:
            kube = Kube({"kubeconfig": kubeconfig, "context": self.get_option("context")})
            self._check_server(kube, kubeconfig)
            return [_slim(node) for node in kube.list(paths.nodes(), labelSelector=self.get_option("label_selector"))]
        except ApiError as error:
            raise self._failed(f"The GPU nodes cannot be listed: {sentence(error)}") from error

    def _check_server(self, kube, kubeconfig):
        wanted = self.get_option("server_version_must_contain")
        version = kube.get("/version")["gitVersion"] if wanted else ""
        if wanted not in version:
            raise self._failed(
                f"This inventory is for a cluster whose version contains {wanted!r}; {kube.host} (kubeconfig "
                f"{kubeconfig or 'from the environment'}) runs {version}. Unset KUBECONFIG and "
                "K8S_AUTH_KUBECONFIG, or copy inventories/example for your own cluster."
            )

    def _failed(self, message):
        """Ansible goes on with an empty inventory when a plugin fails; the playbooks end with what is kept here."""
        self.inventory.set_variable("all", "gpuops_inventory_error", message)
        return AnsibleParserError(message)

    def _add(self, node):
        name = node["metadata"]["name"]
        variables = host_variables(node, self.get_option("pool_label"))
        self.inventory.add_host(name)
        for key, value in variables.items():
            self.inventory.set_variable(name, key, value)
        for prefix, value in (
            ("product", variables["gpuops_product"]),
            ("pool", variables["gpuops_pool"]),
            ("stage", variables["gpuops_stage"]),
            ("qualification", variables["gpuops_qualification"]),
        ):
            if value:
                group = self.inventory.add_group(self._sanitize_group_name(f"{prefix}_{value}"))
                self.inventory.add_child(group, name)
        self.inventory.add_child(self.inventory.add_group("gpu_nodes"), name)
        strict = self.get_option("strict")
        known = self.inventory.get_host(name).get_vars()
        self._set_composite_vars(self.get_option("compose"), known, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), known, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), known, name, strict=strict)


def _slim(node):
    """What host_variables reads, so that a cache (and 10,000 nodes in memory) stays small."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    annotations = metadata.get("annotations") or {}
    return {
        "metadata": {
            "name": metadata["name"],
            "uid": metadata["uid"],
            "labels": metadata.get("labels") or {},
            "annotations": {k: v for k, v in annotations.items() if k == keys.HOLD_ANNOTATION},
        },
        "spec": {"unschedulable": spec.get("unschedulable", False), "taints": spec.get("taints") or []},
        "status": {
            "addresses": status.get("addresses") or [],
            "conditions": [
                {"type": c["type"], "status": c["status"]}
                for c in status.get("conditions") or []
                if c["type"] == "Ready"
            ],
        },
    }
