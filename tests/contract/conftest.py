# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server under test: a simulated cluster, or whatever KUBECONFIG_CONTRACT points at.

A real control plane needs something that plays kubelets for the nodes ct-0 to ct-2 (label pool=ct), pr-0 and pr-1
(pool=probe): it reports them Ready, starts and ends their pods, never ends pods annotated simulator.gpuops.io/stuck "true",
and never makes pods Ready that are annotated simulator.gpuops.io/ready "false".
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from tests.contract.api import Api, is_true, until
from tests.simulated.serving import serving

NODES = {"ct-0": "ct", "ct-1": "ct", "ct-2": "ct", "pr-0": "probe", "pr-1": "probe"}


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    if "KUBECONFIG_CONTRACT" in os.environ:
        yield os.environ["KUBECONFIG_CONTRACT"]
        return
    scenario = Path(__file__).with_name("scenario.yml")
    with serving(tmp_path_factory.mktemp("simulator"), scenario, speed=10) as cluster:
        yield cluster.kubeconfig


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
