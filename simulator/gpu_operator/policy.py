# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ClusterPolicy, and the DaemonSets that the operator makes of it."""

from __future__ import annotations

from simulator.gpu_operator import keys
from simulator.objects import owner_reference

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TIMEOUT = {"timeoutSeconds": {"type": "integer"}}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterpolicies.nvidia.com"},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {
            "plural": "clusterpolicies",
            "singular": "clusterpolicy",
            "kind": "ClusterPolicy",
            "listKind": "ClusterPolicyList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Status", "type": "string", "jsonPath": ".status.state"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "daemonsets": OPEN,
                                    "sandboxWorkloads": OPEN,
                                    "driver": {
                                        "type": "object",
                                        "properties": {
                                            "enabled": {"type": "boolean"},
                                            "version": {"type": "string"},
                                            "repository": {"type": "string"},
                                            "image": {"type": "string"},
                                            "usePrecompiled": {"type": "boolean"},
                                            "useNvidiaDriverCRD": {"type": "boolean"},
                                            "kernelModuleType": {"type": "string"},
                                            "manager": OPEN,
                                            "env": {"type": "array", "items": OPEN},
                                            "upgradePolicy": {
                                                "type": "object",
                                                "properties": {
                                                    "autoUpgrade": {"type": "boolean"},
                                                    "maxParallelUpgrades": {"type": "integer"},
                                                    "maxUnavailable": {"x-kubernetes-int-or-string": True},
                                                    "waitForCompletion": {
                                                        "type": "object",
                                                        "properties": {"podSelector": {"type": "string"}, **TIMEOUT},
                                                    },
                                                    "podDeletion": {
                                                        "type": "object",
                                                        "properties": {
                                                            "force": {"type": "boolean"},
                                                            "deleteEmptyDir": {"type": "boolean"},
                                                            **TIMEOUT,
                                                        },
                                                    },
                                                    "drain": {
                                                        "type": "object",
                                                        "properties": {
                                                            "enable": {"type": "boolean"},
                                                            "force": {"type": "boolean"},
                                                            "podSelector": {"type": "string"},
                                                            "deleteEmptyDir": {"type": "boolean"},
                                                            **TIMEOUT,
                                                        },
                                                    },
                                                },
                                            },
                                        },
                                    },
                                },
                            },
                            "status": OPEN,
                        },
                    }
                },
            }
        ],
    },
}
UPGRADE_POLICY = {
    "autoUpgrade": True,
    "maxParallelUpgrades": 1,
    "maxUnavailable": "25%",
    "waitForCompletion": {"timeoutSeconds": 0, "podSelector": ""},
    "podDeletion": {"force": False, "timeoutSeconds": 300, "deleteEmptyDir": False},
    "drain": {"enable": False, "force": False, "timeoutSeconds": 300, "deleteEmptyDir": False},
}
# operand -> (DaemonSet name, label that switches it, image)
OPERANDS = {
    "driver": ("nvidia-driver-daemonset", "driver", "driver"),
    "toolkit": ("nvidia-container-toolkit-daemonset", "container-toolkit", "container-toolkit:v1.17.8"),
    "device-plugin": ("nvidia-device-plugin-daemonset", "device-plugin", "k8s-device-plugin:v0.17.4"),
    "gfd": ("gpu-feature-discovery", "gpu-feature-discovery", "k8s-device-plugin:v0.17.4"),
    "dcgm": ("nvidia-dcgm", "dcgm", "dcgm:4.4.1-2-ubuntu22.04"),
    "dcgm-exporter": ("nvidia-dcgm-exporter", "dcgm-exporter", "dcgm-exporter:4.4.1"),
    "mig-manager": ("nvidia-mig-manager", "mig-manager", "k8s-mig-manager:v0.12.3"),
    "validator": ("nvidia-operator-validator", "operator-validator", "gpu-operator-validator:v25.3.4"),
}
# What driver-manager pauses before it unloads the driver (k8s-driver-manager).
PAUSED_FOR_DRIVER = ("toolkit", "device-plugin", "gfd", "dcgm", "dcgm-exporter", "mig-manager", "validator")
DEFAULT_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def deploy_label(operand):
    return f"nvidia.com/gpu.deploy.{OPERANDS[operand][1]}"


def cluster_policy(settings):
    """The object a site starts with; settings: driver, tolerations, upgrade_policy (merged over the defaults)."""
    return {
        "metadata": {"name": "cluster-policy"},
        "spec": {
            "daemonsets": {"tolerations": [DEFAULT_TOLERATION, *settings.tolerations]},
            "driver": {
                "enabled": True,
                "repository": "nvcr.io/nvidia",
                "image": "driver",
                "version": settings.driver,
                "upgradePolicy": {**UPGRADE_POLICY, **settings.upgrade_policy},
            },
        },
    }


def operand_of(pod):
    """Name of the operand a pod belongs to, or None."""
    app = (pod["metadata"].get("labels") or {}).get("app")
    if pod["metadata"].get("namespace") != keys.NAMESPACE:
        return None
    return next((operand for operand, (name, _label, _image) in OPERANDS.items() if name == app), None)


def daemonset(operand, policy):
    """The DaemonSet of an operand. Any change of its template is a new revision, for the driver a rollout on all nodes."""
    name, _label, image = OPERANDS[operand]
    spec = policy["spec"]
    if operand == "driver":
        image = f"{spec['driver']['image']}:{spec['driver']['version']}-ubuntu22.04"
    labels = {"app": name, "app.kubernetes.io/component": f"nvidia-{operand}"}
    if operand == "driver":
        labels["app.kubernetes.io/component"] = "nvidia-driver"
    return {
        "metadata": {
            "name": name,
            "labels": {"app": name},
            "ownerReferences": [owner_reference(policy)],
        },
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": "OnDelete" if operand == "driver" else "RollingUpdate"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {deploy_label(operand): "true"},
                    "tolerations": (spec.get("daemonsets") or {}).get("tolerations") or [DEFAULT_TOLERATION],
                    "priorityClassName": "system-node-critical",
                    "terminationGracePeriodSeconds": 60 if operand == "driver" else 30,
                    "containers": [
                        {
                            "name": "nvidia-driver-ctr" if operand == "driver" else name,
                            "image": f"nvcr.io/nvidia/{image}",
                        }
                    ],
                },
            },
        },
    }
