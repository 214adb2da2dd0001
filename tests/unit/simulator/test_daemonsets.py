# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where DaemonSets run, what they count, and how they roll out."""

from __future__ import annotations

import pytest
from stepping import stepping, workload

from simulator.controllers.daemonsets import should_run

KEY = "lifecycle.gpuops.io/hold"
ANY = {"operator": "Exists"}


def node(*taints, **labels):
    listed = [{"key": key, "effect": effect} for key, effect in taints]
    return {"metadata": {"name": "a", "labels": labels}, "spec": {"taints": listed}}


WHERE = [  # template, node, (place, keep)
    ("plain", {}, node(), (True, True)),
    ("cordoned", {}, node(("node.kubernetes.io/unschedulable", "NoSchedule")), (True, True)),
    ("unreachable", {}, node(("node.kubernetes.io/unreachable", "NoExecute")), (True, True)),
    ("not ready also has NoSchedule", {}, node(("node.kubernetes.io/not-ready", "NoSchedule")), (False, True)),
    ("disk pressure", {}, node(("node.kubernetes.io/disk-pressure", "NoSchedule")), (True, True)),
    ("a hold nobody tolerates", {}, node((KEY, "NoSchedule")), (False, True)),
    ("tolerated", {"tolerations": [{"key": KEY, **ANY}]}, node((KEY, "NoSchedule")), (True, True)),
    ("all tolerated", {"tolerations": [ANY]}, node((KEY, "NoExecute")), (True, True)),
    ("only avoided", {}, node((KEY, "PreferNoSchedule")), (True, True)),
    ("to be emptied", {}, node((KEY, "NoExecute")), (False, False)),
    ("another label", {"nodeSelector": {"gpu": "true"}}, node(), (False, False)),
    ("the label", {"nodeSelector": {"gpu": "true"}}, node(gpu="true"), (True, True)),
    ("no network", {}, node(("node.kubernetes.io/network-unavailable", "NoSchedule")), (False, True)),
    (
        "no network, its own host's",
        {"hostNetwork": True},
        node(("node.kubernetes.io/network-unavailable", "NoSchedule")),
        (True, True),
    ),
]


@pytest.mark.parametrize(("what", "spec", "where", "expected"), WHERE, ids=[row[0] for row in WHERE])
def test_where_a_daemon_runs(what, spec, where, expected):
    assert should_run(spec, where) == expected


def figures(world, name="agent"):
    status = world.status("daemonsets", name)
    fields = ("desiredNumberScheduled", "currentNumberScheduled", "numberMisscheduled", "numberReady")
    return tuple(status[field] for field in fields)


def test_a_taint_takes_the_node_out_of_the_count_and_leaves_the_pod():
    """What freezes the GPU operator: pods and desiredNumberScheduled differ."""

    async def play(world):
        world.create("daemonsets", "agent", workload("agent"))
        await world.pass_s(5)
        assert figures(world) == (3, 3, 0, 3)
        world.taint("b", KEY)
        await world.pass_s(5)
        assert figures(world) == (2, 2, 1, 2)
        assert len(world.ready("agent")) == 3
        on_b = next(p for p in world.pods("agent") if p["spec"]["nodeName"] == "b")
        world.delete("pods", on_b["metadata"]["name"])
        await world.pass_s(60)
        assert len(world.pods("agent")) == 2

    stepping(play)


def test_a_cordon_changes_nothing_and_a_deleted_daemon_comes_back():
    async def play(world):
        world.create("daemonsets", "agent", workload("agent"))
        await world.pass_s(5)
        world.cordon("a")
        gone = next(p for p in world.pods("agent") if p["spec"]["nodeName"] == "a")
        world.evict(gone["metadata"]["name"])
        await world.pass_s(10)
        assert figures(world) == (3, 3, 0, 3)
        assert gone["metadata"]["uid"] not in {p["metadata"]["uid"] for p in world.pods("agent")}

    stepping(play)


def change_image(world):
    edit = lambda o: o["spec"]["template"]["spec"]["containers"][0].update(image="app:2")  # noqa: E731
    world.store.mutate("daemonsets", "agent", edit, "default")


@pytest.mark.parametrize(("unavailable", "least"), [(1, 2), (2, 1), ("50%", 1)])
def test_a_rolling_update_keeps_to_its_limit(unavailable, least):
    ready = []

    async def play(world):
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}}
        world.create("daemonsets", "agent", workload("agent", more={"updateStrategy": strategy}))
        await world.pass_s(5)
        world.store.subscribe(lambda change: ready.append(len(world.ready("agent"))))
        change_image(world)
        await world.pass_s(60)
        assert min(ready) == least
        assert {p["spec"]["containers"][0]["image"] for p in world.pods("agent")} == {"app:2"}
        assert world.status("daemonsets", "agent")["updatedNumberScheduled"] == 3

    stepping(play)


def test_on_delete_waits_for_the_deletion_and_tells_revisions_apart():
    async def play(world):
        world.create("daemonsets", "agent", workload("agent", more={"updateStrategy": {"type": "OnDelete"}}))
        await world.pass_s(5)
        (before,) = {p["metadata"]["labels"]["controller-revision-hash"] for p in world.pods("agent")}
        change_image(world)
        await world.pass_s(60)
        assert {p["metadata"]["labels"]["controller-revision-hash"] for p in world.pods("agent")} == {before}
        assert "updatedNumberScheduled" not in world.status("daemonsets", "agent")
        revisions = sorted(world.store.list("controllerrevisions"), key=lambda r: r["revision"])
        assert [r["revision"] for r in revisions] == [1, 2]
        assert revisions[0]["metadata"]["labels"]["controller-revision-hash"] == before
        world.delete("pods", world.pods("agent")[0]["metadata"]["name"])
        await world.pass_s(10)
        assert world.status("daemonsets", "agent")["updatedNumberScheduled"] == 1
        newest = revisions[1]["metadata"]["labels"]["controller-revision-hash"]
        assert newest in {p["metadata"]["labels"]["controller-revision-hash"] for p in world.pods("agent")}

    stepping(play)


def test_a_daemon_that_the_node_rejects_is_tried_again_more_and_more_seldom():
    async def play(world):
        world.create("daemonsets", "agent", workload("agent", gpus=9))
        await world.pass_s(1)
        assert {p["status"]["phase"] for p in world.pods("agent")} == {"Failed"}
        names = set()
        for _second in range(31):
            names |= {p["metadata"]["name"] for p in world.pods("agent") if p["spec"]["nodeName"] == "a"}
            await world.pass_s(1)
        assert 4 <= len(names) <= 7

    stepping(play)


def test_a_new_node_gets_its_daemon_and_a_deleted_one_takes_it_along():
    async def play(world):
        world.create("daemonsets", "agent", workload("agent"))
        await world.pass_s(5)
        world.node("d")
        await world.pass_s(5)
        assert len(world.ready("agent")) == 4
        world.store.delete("nodes", "d")
        await world.pass_s(1)
        assert {p["spec"]["nodeName"] for p in world.pods("agent")} == {"a", "b", "c"}

    stepping(play)
