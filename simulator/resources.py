# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resources the simulated API serves."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Resource:
    """crd: the CustomResourceDefinition that made it, else None. generation: whether spec changes are counted."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple = ()
    status: bool = True
    subresources: tuple = ()
    generation: bool = True
    crd: dict | None = None
    categories: tuple = ()
    columns: list = field(default_factory=list)

    @property
    def group_version(self):
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self):
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def full_kind(self):
        return f"{self.kind}.{self.group}" if self.group else self.kind


def built_in():
    core, apps, batch = ("", "v1"), ("apps", "v1"), ("batch", "v1")
    rbac = ("rbac.authorization.k8s.io", "v1")
    plain = {"status": False, "generation": False}
    every = ("all",)
    return [
        Resource(*core, "namespaces", "Namespace", False, ("ns",), subresources=("finalize",), generation=False),
        Resource(*core, "nodes", "Node", False, ("no",), generation=False),
        Resource(*core, "pods", "Pod", True, ("po",), subresources=("eviction", "binding", "log"), categories=every),
        Resource(*core, "configmaps", "ConfigMap", True, ("cm",), **plain),
        Resource(*core, "secrets", "Secret", **plain),
        Resource(*core, "services", "Service", True, ("svc",), generation=False, categories=every),
        Resource(*core, "endpoints", "Endpoints", True, ("ep",), **plain),
        Resource(*core, "serviceaccounts", "ServiceAccount", True, ("sa",), **plain),
        Resource(*core, "events", "Event", True, ("ev",), **plain),
        Resource(*core, "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",), generation=False),
        Resource(*core, "persistentvolumes", "PersistentVolume", False, ("pv",), generation=False),
        Resource(*core, "replicationcontrollers", "ReplicationController", True, ("rc",), subresources=("scale",)),
        Resource(*apps, "deployments", "Deployment", True, ("deploy",), subresources=("scale",), categories=every),
        Resource(*apps, "replicasets", "ReplicaSet", True, ("rs",), subresources=("scale",), categories=every),
        Resource(*apps, "statefulsets", "StatefulSet", True, ("sts",), subresources=("scale",), categories=every),
        Resource(*apps, "daemonsets", "DaemonSet", True, ("ds",), categories=every),
        Resource(*apps, "controllerrevisions", "ControllerRevision", **plain),
        Resource(*batch, "jobs", "Job", categories=every),
        Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",)),
        Resource("coordination.k8s.io", "v1", "leases", "Lease", **plain),
        Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ("hpa",)),
        Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, ("sc",), **plain),
        Resource(
            "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",), generation=True, status=False
        ),
        Resource(*rbac, "clusterroles", "ClusterRole", False, **plain),
        Resource(*rbac, "clusterrolebindings", "ClusterRoleBinding", False, **plain),
        Resource(*rbac, "roles", "Role", **plain),
        Resource(*rbac, "rolebindings", "RoleBinding", **plain),
        Resource(
            "admissionregistration.k8s.io",
            "v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            False,
            status=False,
        ),
        Resource(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            False,
            ("crd", "crds"),
        ),
    ]


def from_crd(crd):
    """The Resource that a CustomResourceDefinition describes, by its storage version."""
    spec = crd["spec"]
    version = next(v for v in spec["versions"] if v.get("storage"))
    return Resource(
        spec["group"],
        version["name"],
        spec["names"]["plural"],
        spec["names"]["kind"],
        spec["scope"] == "Namespaced",
        tuple(spec["names"].get("shortNames") or ()),
        status="status" in (version.get("subresources") or {}),
        crd=crd,
        categories=tuple(spec["names"].get("categories") or ()),
        columns=version.get("additionalPrinterColumns") or [],
    )


def schema_of(resource):
    """openAPIV3Schema of a custom resource, or {}."""
    versions = resource.crd["spec"]["versions"]
    version = next(v for v in versions if v["name"] == resource.version)
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}
