# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Workloads and budgets for the contract tests."""

from __future__ import annotations

from tests.contract.api import is_true, until

STEER = "simulator.gpuops.io/"


class World:
    """Things in one namespace, on the nodes of one pool."""

    def __init__(self, api, namespace, pool="ct"):
        self.api, self.namespace, self.pool = api, namespace, pool
        self.core = f"/api/v1/namespaces/{namespace}"
        self.apps = f"/apis/apps/v1/namespaces/{namespace}"
        self.budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def template(self, app, **annotations):
        spec = {"nodeSelector": {"pool": self.pool}, "containers": [{"name": "c", "image": "x"}]}
        steered = {STEER + key: value for key, value in annotations.items()}
        return {"metadata": {"labels": {"app": app}, "annotations": steered}, "spec": spec}

    def workload(self, kind, app, replicas=None, wait=True, **annotations):
        """kind: deployments, statefulsets or daemonsets. Waits until the replicas run; gives their pods."""
        spec = {"selector": {"matchLabels": {"app": app}}, "template": self.template(app, **annotations)}
        if replicas is not None:
            spec["replicas"] = replicas
        if kind == "statefulsets":
            spec["serviceName"] = app
        made = self.api.post(f"{self.apps}/{kind}", {"metadata": {"name": app}, "spec": spec})
        assert made.status == 201, made.body
        ready = annotations.get("ready") != "false"
        if wait:
            assert until(lambda: len(self.running(app, ready)) == (replicas or 3)), self.pods(app)
        return self.running(app, ready)

    def deploy(self, app, replicas, **more):
        return self.workload("deployments", app, replicas, **more)

    def pod(self, name, node=None, finalizers=None, wait=True, **annotations):
        template = self.template(name, **annotations)
        template["metadata"]["name"] = name
        if node:
            template["spec"]["nodeName"] = node
        if finalizers:
            template["metadata"]["finalizers"] = finalizers
        assert self.api.post(f"{self.core}/pods", template).status == 201
        if wait:
            assert until(lambda: self.running(name)), self.pods(name)
        return self.api.get(f"{self.core}/pods/{name}").body

    def pods(self, app):
        return self.api.get(f"{self.core}/pods?labelSelector=app%3D{app}").items

    def running(self, app, ready=True):
        return [
            p
            for p in self.pods(app)
            if p["status"].get("phase") == "Running"
            and not p["metadata"].get("deletionTimestamp")
            and (is_true(p, "Ready") or not ready)
        ]

    def budget(self, name, app=None, allowed=None, **spec):
        """Waits until the controller has seen it (and allows `allowed` disruptions)."""
        selector = {"matchLabels": {"app": app or name}}
        made = self.api.post(self.budgets, {"metadata": {"name": name}, "spec": {"selector": selector, **spec}})
        assert made.status == 201, made.body

        def seen():
            status = self.budget_status(name)
            observed = status.get("observedGeneration") == 1
            return observed and (allowed is None or status["disruptionsAllowed"] == allowed)

        assert until(seen), self.budget_status(name)
        return self.budget_status(name)

    def budget_status(self, name):
        return self.api.get(f"{self.budgets}/{name}").body["status"]
