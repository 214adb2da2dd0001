# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server under test: a simulated cluster, or whatever KUBECONFIG_CONTRACT points at.

A real control plane needs something that plays kubelets for the nodes ct-0 to ct-2 (label pool=ct), pr-0 and pr-1
(pool=probe): it reports them Ready, starts and ends their pods, never ends pods annotated simulator.gpuops.io/stuck "true",
and never makes pods Ready that are annotated simulator.gpuops.io/ready "false".
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.contract.api import Api, is_true, until

ROOT = Path(__file__).resolve().parents[2]
NODES = {"ct-0": "ct", "ct-1": "ct", "ct-2": "ct", "pr-0": "probe", "pr-1": "probe"}


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    if "KUBECONFIG_CONTRACT" in os.environ:
        yield os.environ["KUBECONFIG_CONTRACT"]
        return
    folder = tmp_path_factory.mktemp("simulator")
    command = [
        sys.executable, "-m", "simulator", "serve", "--port", "0", "--speed", "10", "--no-page",
        "--scenario", str(Path(__file__).with_name("scenario.yml")),
        "--kubeconfig", str(folder / "kubeconfig"), "--ready-file", str(folder / "ready"),
    ]  # fmt: skip
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        up = until(lambda: (folder / "ready").exists() or process.poll() is not None, 60)
        assert up and process.poll() is None, (folder / "log").read_text()
        yield folder / "kubeconfig"
    finally:
        process.terminate()
        process.wait(20)
    said = (folder / "log").read_text()
    assert "Traceback" not in said, said


@pytest.fixture(scope="session")
def api(kubeconfig):
    api = Api(kubeconfig)
    sizes = {"cpu": "64", "memory": "512Gi", "pods": "250"}
    for name, pool in NODES.items():
        node = {
            "metadata": {"name": name, "labels": {"pool": pool}},
            "status": {"capacity": sizes, "allocatable": sizes},
        }
        assert api.post("/api/v1/nodes", node).status in (201, 409)
        assert until(lambda path=f"/api/v1/nodes/{name}": is_true(api.get(path).body, "Ready"), 60), name
    return api


@pytest.fixture
def namespace(api):
    name = f"contract-{uuid.uuid4().hex[:6]}"
    assert api.post("/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
    assert until(lambda: api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default").status == 200)
    yield name
    api.delete(f"/api/v1/namespaces/{name}")
