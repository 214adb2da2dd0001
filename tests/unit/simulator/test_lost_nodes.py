# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taints that follow conditions, and what NoExecute does to pods."""

from __future__ import annotations

import pytest
from stepping import pod_spec, stepping, workload

from simulator.controllers.nodelifecycle import wanted_taints
from simulator.controllers.tainteviction import stays_s
from simulator.objects import condition

PREFIX = "node.kubernetes.io/"


def node(ready="True", cordoned=False, **conditions):
    found = [{"type": "Ready", "status": ready}, *({"type": k, "status": v} for k, v in conditions.items())]
    return {"spec": {"unschedulable": cordoned}, "status": {"conditions": found}}


TAINTS = [
    ("ready", node(), []),
    ("cordoned", node(cordoned=True), [("unschedulable", "NoSchedule")]),
    ("not ready", node("False"), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
    ("silent", node("Unknown"), [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
    ("disk pressure", node(DiskPressure="True"), [("disk-pressure", "NoSchedule")]),
    ("pressure unknown", node(DiskPressure="Unknown"), []),
    ("never heard of", {"spec": {}}, [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
]


@pytest.mark.parametrize(("what", "node", "expected"), TAINTS, ids=[row[0] for row in TAINTS])
def test_taints(what, node, expected):
    assert wanted_taints(node) == [(PREFIX + key, effect) for key, effect in expected]


def toleration(key=None, seconds=None, effect="NoExecute", **more):
    found = {"operator": "Exists", **({"key": key} if key else {}), **({"effect": effect} if effect else {}), **more}
    return {**found, "tolerationSeconds": seconds} if seconds is not None else found


X, Y = {"key": "x", "effect": "NoExecute"}, {"key": "y", "effect": "NoExecute"}
STAYS = [
    ("no taint", [], [], None),
    ("only NoSchedule", [{"key": "x", "effect": "NoSchedule"}], [], None),
    ("not tolerated", [X], [], 0),
    ("for good", [X], [toleration("x")], None),
    ("for a while", [X], [toleration("x", 300)], 300),
    ("for as long as the shortest", [X, Y], [toleration("x", 300), toleration("y", 60)], 60),
    ("one of two", [X, Y], [toleration("x", 300)], 0),
    ("everything", [X, Y], [toleration(effect=None)], None),
    ("another effect", [X], [toleration("x", effect="NoSchedule")], 0),
    ("another value", [{**X, "value": "1"}], [{"key": "x", "operator": "Equal", "value": "2"}], 0),
    ("less than nothing", [X], [toleration("x", -1)], 0),
]


@pytest.mark.parametrize(("what", "taints", "tolerations", "expected"), STAYS, ids=[row[0] for row in STAYS])
def test_how_long_a_pod_stays(what, taints, tolerations, expected):
    assert stays_s({"spec": {"tolerations": tolerations}}, taints) == expected


def test_pods_of_a_silent_node_are_given_up_after_five_minutes_and_daemons_stay():
    async def play(world):
        world.cordon("c")
        world.create("deployments", "web", workload("web", 2))
        world.create("daemonsets", "agent", workload("agent"))
        await world.pass_s(5)
        world.machines["a"].alive = False
        world.kubelet.beat_now("a")
        await world.settle()
        assert not any(condition(p, "Ready") for p in world.store.pods_on("a"))
        await world.pass_s(299)
        assert len(world.pods("web")) == 2
        await world.pass_s(5)
        lost = [p for p in world.store.pods_on("a") if p["metadata"]["labels"]["app"] == "web"]
        assert lost[0]["metadata"]["deletionTimestamp"]
        assert condition(lost[0], "DisruptionTarget")
        assert [p["spec"]["nodeName"] for p in world.ready("web")] == ["b", "b"]
        daemon = next(p for p in world.pods("agent") if p["spec"]["nodeName"] == "a")
        assert "deletionTimestamp" not in daemon["metadata"]

    stepping(play)


def test_a_node_that_comes_back_in_time_keeps_its_pods_and_the_clock_starts_anew():
    async def play(world):
        world.store.create("pods", {"metadata": {"name": "p"}, "spec": pod_spec(nodeName="a")}, "default")
        await world.pass_s(5)
        for _outage in range(2):
            world.machines["a"].alive = False
            world.kubelet.beat_now("a")
            await world.pass_s(200)
            world.machines["a"].alive = True
            world.kubelet.beat_now("a")
            await world.pass_s(20)
        assert "deletionTimestamp" not in world.pod("p")["metadata"]
        assert condition(world.pod("p"), "Ready")

    stepping(play)


def test_a_taint_by_hand_empties_a_node_but_for_those_that_tolerate_it():
    async def play(world):
        world.create("deployments", "web", workload("web", 3))
        tolerations = [toleration("maintenance", 60)]
        world.store.create(
            "pods", {"metadata": {"name": "p"}, "spec": pod_spec(nodeName="a", tolerations=tolerations)}, "default"
        )
        await world.pass_s(5)
        world.taint("a", effect="NoExecute")
        await world.pass_s(10)
        assert "a" not in {p["spec"]["nodeName"] for p in world.pods("web")}
        assert world.pod("p")
        await world.pass_s(60)
        assert world.pod("p") is None

    stepping(play)


def test_a_cordon_brings_its_taint_which_comes_back_when_taken_off():
    async def play(world):
        world.cordon("a")
        await world.settle()
        (taint,) = world.store.get("nodes", "a")["spec"]["taints"]
        assert (taint["key"], taint["effect"]) == (f"{PREFIX}unschedulable", "NoSchedule")
        assert taint["timeAdded"]
        world.store.mutate("nodes", "a", lambda o: o["spec"].update(taints=[{"key": "x", "effect": "NoSchedule"}]))
        await world.settle()
        assert [t["key"] for t in world.store.get("nodes", "a")["spec"]["taints"]] == ["x", f"{PREFIX}unschedulable"]
        world.store.mutate("nodes", "a", lambda o: o["spec"].pop("unschedulable"))
        await world.settle()
        assert [t["key"] for t in world.store.get("nodes", "a")["spec"]["taints"]] == ["x"]

    stepping(play)
