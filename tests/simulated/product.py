# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The product at work on a simulated cluster: its playbooks as a user runs them, and what they leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

import yaml

from tests.simulated.serving import ROOT

NEW, OLD = "580.95.05", "575.57.08"
UPGRADE = ("-e", "gpuops_change=driver", "-e", f"gpuops_driver_version={NEW}")
PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "Namespace": "namespaces",
    "ClusterRole": "clusterroles",
    "Role": "roles",
}


class Product:
    """Runs playbooks against a tests.simulated.serving.SimulatedCluster."""

    def __init__(self, cluster):
        self.cluster = cluster
        self._sessions = []

    def install(self):
        """What playbooks/install.yml does, without starting Ansible; a scenario may have done it already."""
        files = sorted((ROOT / "roles/install/files").glob("*.yml"))
        manifests = [yaml.safe_load(file.read_text()) for file in files]
        for manifest in sorted(manifests, key=lambda m: "namespace" in m["metadata"]):
            version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
            scope = f"/namespaces/{namespace}" if namespace else ""
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            answer = self.cluster.api.call("POST", f"{root}{scope}/{PLURALS[manifest['kind']]}", manifest)
            assert answer.status in (201, 409), answer.body

    def environment(self, **more):
        kept = {k: v for k, v in self.cluster.environment.items() if k != "KUBECONFIG"}
        path = f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "PATH": path, **more}

    def command(self, name, *arguments, inventory="inventories/demo"):
        return ["ansible-playbook", "-i", inventory, f"playbooks/{name}.yml", *arguments]

    def playbook(self, name, *arguments, inventory="inventories/demo", timeout_s=240, **environment):
        return subprocess.run(
            self.command(name, *arguments, inventory=inventory),
            cwd=ROOT,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def upgrade(self, *arguments, **options):
        return self.playbook("upgrade", *UPGRADE, *arguments, **options)

    def start_upgrade(self, *arguments):
        """In a session of its own: a shell's background job ignores SIGINT, and an orphan must outlive its controller."""
        process = subprocess.Popen(
            self.command("upgrade", *UPGRADE, *arguments),
            cwd=ROOT,
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._sessions.append(process)
        return process

    def end(self):
        """End what start_upgrade started, orphaned workers included: they would wait for their deadlines."""
        for process in self._sessions:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)

    def labels(self, name):
        return self.cluster.node(name)["metadata"]["labels"]

    def driver(self, name):
        return self.labels(name).get("nvidia.com/cuda.driver-version.full")

    def in_service(self, name):
        node = self.cluster.node(name)
        held = "lifecycle.gpuops.io/hold" in (node["metadata"].get("annotations") or {})
        return not node["spec"].get("unschedulable") and not held

    def is_upgraded(self, name):
        return self.driver(name) == NEW and self.in_service(name)

    def records(self, name):
        items = self.cluster.api.get("/apis/lifecycle.gpuops.io/v1alpha1/noderecords").body["items"]
        return sorted((r for r in items if r["spec"]["node"]["name"] == name), key=lambda r: r["metadata"]["name"])

    def cordon(self, name):
        answer = self.cluster.api.call(
            "PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, "application/merge-patch+json"
        )
        assert answer.status == 200, answer.body


def last_lines(run, count=2):
    """The end of what a run printed, as one text."""
    return " ".join(" ".join(run.stdout.strip().splitlines()[-count:]).split())
