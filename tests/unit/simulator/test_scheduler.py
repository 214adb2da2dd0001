# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where pods go, and what is said when they go nowhere."""

from __future__ import annotations

import collections

import pytest
from stepping import pod_spec, stepping, workload

from simulator.scheduling import fits_selectors

GPU_TAINT = ("nvidia.com/gpu", "NoSchedule")


def put(world, name, gpus=0, labels=None, **spec):
    return world.create("pods", name, pod_spec(gpus, **spec), labels=labels)


def where(world, name):
    return world.pod(name)["spec"].get("nodeName")


def said(world, name):
    found = next(c for c in world.pod(name)["status"]["conditions"] if c["type"] == "PodScheduled")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    return found["message"]


def requiring(*terms):
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


PINNED = requiring({"matchFields": [expression("metadata.name", "In", "n")]})
SELECTED = [  # spec, fits node n with labels gpu=h100, slots=8
    ("nothing asked", {}, True),
    ("selector", {"nodeSelector": {"gpu": "h100"}}, True),
    ("selector of another", {"nodeSelector": {"gpu": "a100"}}, False),
    ("pinned by field", PINNED, True),
    ("pinned elsewhere", requiring({"matchFields": [expression("metadata.name", "In", "m")]}), False),
    ("in", requiring({"matchExpressions": [expression("gpu", "In", "a100", "h100")]}), True),
    ("not in", requiring({"matchExpressions": [expression("gpu", "NotIn", "h100")]}), False),
    ("exists", requiring({"matchExpressions": [expression("gpu", "Exists")]}), True),
    ("does not exist", requiring({"matchExpressions": [expression("zone", "DoesNotExist")]}), True),
    ("more than", requiring({"matchExpressions": [expression("slots", "Gt", "4")]}), True),
    ("less than", requiring({"matchExpressions": [expression("slots", "Lt", "8")]}), False),
    ("any term", requiring({"matchExpressions": [expression("zone", "Exists")]}, {"matchExpressions": [
        expression("gpu", "Exists")]}), True),
    ("all of a term", requiring({"matchExpressions": [expression("gpu", "Exists"), expression("zone", "Exists")]}),
     False),
    ("a term that says nothing", requiring({}), False),
]  # fmt: skip


@pytest.mark.parametrize(("what", "spec", "expected"), SELECTED, ids=[row[0] for row in SELECTED])
def test_selectors(what, spec, expected):
    node = {"metadata": {"name": "n", "labels": {"gpu": "h100", "slots": "8"}}}
    assert fits_selectors(spec, node) is expected


def test_gpus_go_where_most_are_free_and_never_beyond_what_there_is():
    async def play(world):
        for i in range(7):
            put(world, f"p{i}", gpus=4)
            await world.settle()
        used = collections.Counter(where(world, f"p{i}") for i in range(7))
        assert used == {"a": 2, "b": 2, "c": 2, None: 1}
        message = said(world, "p6")
        assert message == (
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: "
            "3 No preemption victims found for incoming pod."
        )
        world.delete("pods", "p0")
        await world.pass_s(5)
        assert where(world, "p6") == "a"

    stepping(play)


def test_a_refusal_names_every_reason_with_its_nodes():
    async def play(world):
        world.cordon("a")
        world.taint("b", *GPU_TAINT)
        put(world, "big", gpus=9)
        await world.settle()
        assert said(world, "big") == (
            "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s), "
            "1 node(s) were unschedulable. preemption: 0/3 nodes are available: "
            "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
        )
        put(world, "elsewhere", nodeSelector={"pool": "x"})
        await world.settle()
        assert "1 node(s) didn't match Pod's node affinity/selector" in said(world, "elsewhere")

    stepping(play)


CHANGES = [
    ("uncordon", lambda w: w.store.mutate("nodes", "a", lambda o: o["spec"].pop("unschedulable"))),
    ("new node", lambda w: w.node("d")),
    ("tolerated", lambda w: w.store.mutate("nodes", "b", lambda o: o["spec"].pop("taints"))),
]


@pytest.mark.parametrize(("what", "change"), CHANGES, ids=[row[0] for row in CHANGES])
def test_a_waiting_pod_goes_as_soon_as_there_is_room(what, change):
    async def play(world):
        world.cordon("a")
        world.taint("b", *GPU_TAINT)
        world.cordon("c")
        put(world, "p")
        await world.settle()
        assert where(world, "p") is None
        change(world)
        await world.settle()
        assert where(world, "p") is not None

    stepping(play)


def spread(when="DoNotSchedule", key="kubernetes.io/hostname", skew=1):
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": {"app": "web"}}}]}


def test_hard_spreading_counts_cordoned_nodes_and_refuses_with_its_reason():
    """nodeTaintsPolicy is Ignore by default: a cordoned node's empty domain holds the others back."""

    async def play(world):
        world.cordon("c")
        world.create("deployments", "web", workload("web", 3, **spread()))
        await world.settle()
        assert sorted(filter(None, (p["spec"].get("nodeName") for p in world.pods("web")))) == ["a", "b"]
        waiting = next(p["metadata"]["name"] for p in world.pods("web") if not p["spec"].get("nodeName"))
        assert "2 node(s) didn't match pod topology spread constraints" in said(world, waiting)

    stepping(play)


def test_soft_spreading_prefers_and_gives_way():
    async def play(world):
        world.create("deployments", "web", workload("web", 3, **spread("ScheduleAnyway")))
        await world.settle()
        assert {p["spec"]["nodeName"] for p in world.pods("web")} == {"a", "b", "c"}
        world.cordon("b")
        world.cordon("c")
        world.store.mutate("deployments", "web", lambda o: o["spec"].update(replicas=5), "default")
        await world.settle()
        assert collections.Counter(p["spec"]["nodeName"] for p in world.pods("web"))["a"] == 3

    stepping(play)


def apart(kind="podAntiAffinity", app="web"):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_anti_affinity_holds_in_both_directions():
    async def play(world):
        world.create("deployments", "web", workload("web", 4, **apart()))
        await world.settle()
        assert sorted(p["spec"].get("nodeName", "") for p in world.pods("web")) == ["", "a", "b", "c"]
        waiting = next(p["metadata"]["name"] for p in world.pods("web") if not p["spec"].get("nodeName"))
        assert "3 node(s) didn't match pod anti-affinity rules" in said(world, waiting)
        put(world, "plain", labels={"app": "web"})
        put(world, "other", labels={"app": "other"})
        await world.settle()
        assert "3 node(s) didn't satisfy existing pods anti-affinity rules" in said(world, "plain")
        assert where(world, "other")

    stepping(play)


def test_affinity_follows_and_the_first_of_its_kind_may_start():
    async def play(world):
        put(world, "first", labels={"app": "web"}, **apart("podAffinity"))
        await world.settle()
        for i in range(3):
            put(world, f"next{i}", labels={"app": "web"}, **apart("podAffinity"))
        put(world, "lost", **apart("podAffinity", app="nowhere"))
        await world.settle()
        assert {where(world, f"next{i}") for i in range(3)} == {where(world, "first")}
        assert "3 node(s) didn't match pod affinity rules" in said(world, "lost")

    stepping(play)


def test_other_schedulers_pods_and_gated_pods_are_left_alone():
    async def play(world):
        put(world, "other", schedulerName="volcano")
        put(world, "gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
        await world.pass_s(5)
        assert where(world, "other") is None
        assert "conditions" not in world.pod("other")["status"]
        (found,) = world.pod("gated")["status"]["conditions"]
        assert found["reason"] == "SchedulingGated"
        world.store.mutate("pods", "gated", lambda o: o["spec"].pop("schedulingGates"), "default")
        await world.settle()
        assert where(world, "gated")

    stepping(play)


def test_a_preferred_node_wins_and_a_soft_taint_loses():
    async def play(world):
        preference = {
            "weight": 10,
            "preference": {"matchExpressions": [expression("kubernetes.io/hostname", "In", "b")]},
        }
        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
        put(world, "likes-b", affinity={"nodeAffinity": preferred})
        await world.settle()
        assert where(world, "likes-b") == "b"
        world.taint("b", "soft", "PreferNoSchedule")
        put(world, "again", affinity={"nodeAffinity": preferred})
        await world.settle()
        assert where(world, "again") != "b"

    stepping(play)
