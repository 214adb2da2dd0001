# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`executor: host` sends the module to the host, which runs the program there and needs no cluster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests/fixtures/dcgmi"
PLAY = """
- hosts: localhost
  gather_facts: false
  connection: local
  vars:
    ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
  tasks:
    - gpuops.lifecycle.dcgmi_diag:
        node: here
        executor: host
        binary: {binary}
        level: 2
        expected_gpus: 8
        timeout_s: 5
        fail_on_verdict: {fail_on_verdict}
      register: diag
    - ansible.builtin.copy:
        dest: {out}
        content: "{{{{ diag | to_json }}}}"
        mode: "0600"
"""


def run(tmp_path, script, fail_on_verdict=False):
    binary, out, play = tmp_path / "dcgmi", tmp_path / "out.json", tmp_path / "play.yml"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    play.write_text(PLAY.format(binary=binary, out=out, fail_on_verdict=str(fail_on_verdict).lower()))
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "KUBECONFIG": "/no/such/file"}
    environment["PATH"] = f"{ROOT / '.venv/bin'}{os.pathsep}{environment['PATH']}"
    command = ["ansible-playbook", "-i", "localhost,", str(play)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done, json.loads(out.read_text()) if out.exists() else None


@pytest.mark.parametrize(
    ("script", "verdict", "cause"),
    [
        (f"cat {SAMPLES}/02-pass-v4.json", "pass", ""),
        (f"cat {SAMPLES}/02-pass-v4.json; echo noise >&2", "pass", ""),
        (f"cat {SAMPLES}/03-fail-memory-v4.json; exit 205", "fail", "hardware"),
        ("exit 0", "unknown", "output"),
        ("sleep 60", "unknown", "timeout"),
    ],
)
def test_the_program_on_the_host_is_judged(tmp_path, script, verdict, cause):
    done, diag = run(tmp_path, script)
    assert done.returncode == 0, done.stdout
    assert (diag["verdict"], diag["cause"], diag["changed"]) == (verdict, cause, False)


def test_a_verdict_that_is_no_pass_fails_the_task_by_default(tmp_path):
    done, _diag = run(tmp_path, "exit 0", fail_on_verdict=True)
    assert done.returncode != 0
    assert "must not go back to work" in " ".join(done.stdout.split())
