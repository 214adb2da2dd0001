# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths of the Kubernetes API. Every part that comes from outside is quoted."""

from __future__ import annotations

from urllib.parse import quote

RECORD_API = "/apis/lifecycle.gpuops.io/v1alpha1"


def _part(text):
    return quote(str(text), safe="")


def _namespaced(prefix, plural, namespace, name=None):
    scope = f"/namespaces/{_part(namespace)}" if namespace else ""
    return f"{prefix}{scope}/{plural}" + (f"/{_part(name)}" if name is not None else "")


def nodes():
    return "/api/v1/nodes"


def node(name):
    return f"/api/v1/nodes/{_part(name)}"


def pods(namespace=None):
    return _namespaced("/api/v1", "pods", namespace)


def pod(namespace, name):
    return _namespaced("/api/v1", "pods", namespace, name)


def events(namespace=None):
    return _namespaced("/api/v1", "events", namespace)


def namespace(name):
    return f"/api/v1/namespaces/{_part(name)}"


def pdbs(namespace=None):
    return _namespaced("/apis/policy/v1", "poddisruptionbudgets", namespace)


def workloads(plural, namespace=None, name=None):
    """Deployments, ReplicaSets, StatefulSets, DaemonSets (`plural` is ours, not the cluster's)."""
    return _namespaced("/apis/apps/v1", plural, namespace, name)


def daemonsets(namespace=None):
    return workloads("daemonsets", namespace)


def jobs(namespace=None):
    return _namespaced("/apis/batch/v1", "jobs", namespace)


def job(namespace, name):
    return _namespaced("/apis/batch/v1", "jobs", namespace, name)


def leases(namespace):
    return _namespaced("/apis/coordination.k8s.io/v1", "leases", namespace)


def lease(namespace, name):
    return _namespaced("/apis/coordination.k8s.io/v1", "leases", namespace, name)


def clusterpolicies():
    return "/apis/nvidia.com/v1/clusterpolicies"


def clusterpolicy(name):
    return f"{clusterpolicies()}/{_part(name)}"


def noderecords():
    return f"{RECORD_API}/noderecords"


def noderecord(name):
    return f"{noderecords()}/{_part(name)}"
