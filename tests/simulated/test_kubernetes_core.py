# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kubernetes.core's modules work on the simulated cluster: the product's users mix them with ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PLAY = """
- hosts: localhost
  gather_facts: false
  vars:
    node: cpu-node-1
  tasks:
    - name: A namespace
      kubernetes.core.k8s: {api_version: v1, kind: Namespace, name: core, state: present}
      register: made
    - name: The namespace again
      kubernetes.core.k8s: {api_version: v1, kind: Namespace, name: core, state: present}
      register: again
    - name: A Deployment, waited for
      kubernetes.core.k8s:
        definition: "{{ deployment }}"
        wait: true
        wait_timeout: 30
      register: deployed
    - name: The same, as an applier
      kubernetes.core.k8s:
        definition: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: core}, data: {a: b}}
        server_side_apply: {field_manager: play}
        apply: true
      register: applied
    - name: Its pods
      kubernetes.core.k8s_info: {kind: Pod, namespace: core, label_selectors: [app=web]}
      register: pods
    - name: A drain
      kubernetes.core.k8s_drain:
        name: "{{ node }}"
        state: drain
        delete_options: {ignore_daemonsets: true, delete_emptydir_data: true, force: true, wait_timeout: 60}
      register: drained
    - name: The node
      kubernetes.core.k8s_info: {kind: Node, name: "{{ node }}"}
      register: cordoned
    - name: Back
      kubernetes.core.k8s_drain: {name: "{{ node }}", state: uncordon}
      register: uncordoned
    - name: Away
      kubernetes.core.k8s: {api_version: v1, kind: Namespace, name: core, state: absent, wait: true, wait_timeout: 30}
      register: removed
    - name: What was found
      ansible.builtin.copy:
        dest: "{{ result }}"
        mode: "0600"
        content: "{{ {
            'made': made.changed, 'again': again.changed, 'deployed': deployed.result.status.readyReplicas,
            'applied': applied.changed, 'pods': pods.resources | map(attribute='status.phase') | list,
            'drained': drained.changed, 'cordoned': cordoned.resources[0].spec.unschedulable | default(false),
            'uncordoned': uncordoned.changed, 'removed': removed.changed} | to_json }}"
"""
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "core"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "registry.example/web:1"}]},
        },
    },
}


@pytest.fixture
def play(cluster, tmp_path):
    """Run PLAY; gives what it wrote."""
    result, path = tmp_path / "result.json", tmp_path / "play.yml"
    path.write_text(PLAY, encoding="utf-8")
    given = tmp_path / "vars.yml"
    given.write_text(yaml.safe_dump({"deployment": DEPLOYMENT, "result": str(result)}), encoding="utf-8")
    environment = {
        **cluster.environment,
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    (tmp_path / "ansible.cfg").write_text("", encoding="utf-8")
    environment["ANSIBLE_LOCAL_TEMP"] = str(tmp_path / "tmp")
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "-c", "local", "-e", f"@{given}",
        "-e", f"ansible_python_interpreter={sys.executable}", str(path),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    return json.loads(result.read_text(encoding="utf-8"))


def test_a_play_with_kubernetes_core(play):
    assert play == {
        "made": True,
        "again": False,
        "deployed": 2,
        "applied": True,
        "pods": ["Running", "Running"],
        "drained": True,
        "cordoned": True,
        "uncordoned": True,
        "removed": True,
    }
