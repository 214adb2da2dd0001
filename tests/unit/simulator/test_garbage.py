# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes with what it belongs to."""

from __future__ import annotations

from stepping import stepping, workload

from simulator.objects import owner_reference


async def web(world, **steer):
    world.create("deployments", "web", workload("web", 2, steer=steer))
    await world.pass_s(5)


def test_background_the_owner_goes_first():
    async def play(world):
        await web(world, **{"stop-s": 10})
        world.delete("deployments", "web", propagationPolicy="Background")
        await world.settle()
        assert world.get("deployments", "web") is None
        assert world.store.list("replicasets") == []
        assert len(world.pods("web")) == 2
        await world.pass_s(15)
        assert world.pods("web") == []

    stepping(play)


def test_foreground_the_owner_waits_for_what_it_owns():
    async def play(world):
        await web(world, **{"stop-s": 10})
        world.delete("deployments", "web", propagationPolicy="Foreground")
        await world.pass_s(5)
        assert world.get("deployments", "web")["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert len(world.store.list("replicasets")) == 1
        assert len(world.pods("web")) == 2
        await world.pass_s(10)
        assert world.pods("web") == world.store.list("replicasets") == world.store.list("deployments") == []

    stepping(play)


def test_orphans_stay_and_forget_their_owner():
    async def play(world):
        await web(world)
        world.delete("deployments", "web", propagationPolicy="Orphan")
        await world.pass_s(5)
        assert world.get("deployments", "web") is None
        (replicaset,) = world.store.list("replicasets")
        assert "ownerReferences" not in replicaset["metadata"]
        assert len(world.ready("web")) == 2

    stepping(play)


def test_an_object_goes_with_its_last_owner():
    async def play(world):
        owners = [world.store.create("configmaps", {"metadata": {"name": f"owner-{i}"}}, "default") for i in range(2)]
        refs = [{**owner_reference(owner), "controller": False} for owner in owners]
        world.store.create("configmaps", {"metadata": {"name": "shared", "ownerReferences": refs}}, "default")
        world.delete("configmaps", "owner-0")
        await world.settle()
        left = world.get("configmaps", "shared")["metadata"]["ownerReferences"]
        assert [ref["name"] for ref in left] == ["owner-1"]
        world.delete("configmaps", "owner-1")
        await world.settle()
        assert world.get("configmaps", "shared") is None

    stepping(play)


def test_an_object_of_an_owner_that_never_was_is_collected():
    async def play(world):
        ref = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "no-such-uid"}
        world.store.create("configmaps", {"metadata": {"name": "lost", "ownerReferences": [ref]}}, "default")
        await world.settle()
        assert world.get("configmaps", "lost") is None

    stepping(play)


def test_a_namespace_goes_once_it_is_empty_and_its_controllers_do_not_fill_it_again():
    async def play(world):
        world.store.create("namespaces", {"metadata": {"name": "team"}})
        await world.settle()
        assert world.store.get("serviceaccounts", "default", "team")
        world.create("deployments", "web", workload("web", 2, steer={"stop-s": 10}), namespace="team")
        await world.pass_s(5)
        world.store.delete("namespaces", "team")
        await world.pass_s(5)
        assert world.store.get("namespaces", "team")["status"]["phase"] == "Terminating"
        await world.pass_s(10)
        assert world.store.get("namespaces", "team") is None
        assert world.store.list("deployments") == world.pods("web") == []

    stepping(play)
