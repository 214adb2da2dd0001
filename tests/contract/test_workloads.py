# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What controllers do with pods that go, and where the scheduler puts them."""

from __future__ import annotations

import pytest

from tests.contract.api import until
from tests.contract.world import World


@pytest.fixture
def world(api, namespace):
    return World(api, namespace)


@pytest.fixture
def cordon(api):
    done = []

    def cordon(*names):
        for name in names:
            done.append(name)
            api.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})

    yield cordon
    for name in done:
        api.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


def test_a_daemon_comes_back_onto_its_cordoned_node(api, world, cordon):
    pods = world.workload("daemonsets", "daemon")
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["ct-0", "ct-1", "ct-2"]
    cordon("ct-1")
    old = next(pod for pod in pods if pod["spec"]["nodeName"] == "ct-1")
    api.evict(old)

    def back():
        found = [pod for pod in world.running("daemon") if pod["spec"]["nodeName"] == "ct-1"]
        return [pod for pod in found if pod["metadata"]["uid"] != old["metadata"]["uid"]]

    assert until(back)


def test_a_stateful_pod_comes_back_under_its_name_with_another_uid(api, world):
    world.workload("statefulsets", "ss", 2)
    old = api.get(f"{world.core}/pods/ss-0").body
    api.evict(old)
    assert until(
        lambda: any(
            pod["metadata"]["name"] == "ss-0" and pod["metadata"]["uid"] != old["metadata"]["uid"]
            for pod in world.running("ss")
        )
    )


def test_a_cordoned_node_gets_no_pods(world, cordon):
    cordon("ct-0", "ct-1")
    assert {pod["spec"]["nodeName"] for pod in world.deploy("sched", 4)} == {"ct-2"}


def test_pods_go_with_their_deployment(api, world):
    world.deploy("web", 2)
    api.delete(f"{world.apps}/deployments/web", {"propagationPolicy": "Background"})
    assert until(lambda: not world.pods("web"))
    assert api.get(f"{world.apps}/replicasets?labelSelector=app%3Dweb").items == []
