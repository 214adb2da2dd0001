# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ReplicaSets, Deployments and StatefulSets."""

from __future__ import annotations

import pytest
from stepping import stepping, workload

from simulator.controllers.deployments import Size, fences, roll
from simulator.controllers.replicasets import DELETION_COST, first_to_go

NEW, OLD = "new", "old"


def test_a_deleted_pod_is_replaced_at_once_while_it_still_ends():
    async def play(world):
        world.create("deployments", "web", workload("web", 2, grace=30, steer={"stop-s": 20}))
        await world.pass_s(5)
        assert len(world.ready("web")) == 2
        world.delete("pods", world.pods("web")[0]["metadata"]["name"])
        await world.settle()
        assert len(world.pods("web")) == 3
        await world.pass_s(5)
        assert (len(world.pods("web")), len(world.ready("web"))) == (3, 2)
        await world.pass_s(20)
        assert len(world.pods("web")) == 2

    stepping(play)


def test_a_deployment_has_the_figures_and_the_revision_that_kubectl_reads():
    async def play(world):
        world.create("deployments", "web", workload("web", 3))
        await world.pass_s(5)
        found = world.get("deployments", "web")
        status = found["status"]
        assert [status[k] for k in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")] == [3] * 4
        assert "unavailableReplicas" not in status
        assert {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]} == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"

    stepping(play)


def test_a_rollout_stays_within_its_fences_and_a_rollback_takes_the_old_replicaset_again():
    seen = []

    async def play(world):
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        world.create("deployments", "web", workload("web", 4, steer={"start-s": 3}, more={"strategy": strategy}))
        await world.pass_s(10)
        first = world.get("deployments", "web")["spec"]["template"]

        def image(name):
            return lambda o: o["spec"]["template"]["spec"]["containers"][0].update(image=name)

        def count(change):
            if change.resource.plural in ("pods", "replicasets"):
                asked = sum(s["spec"]["replicas"] for s in world.store.list("replicasets"))
                seen.append((asked, len(world.ready("web"))))

        world.store.subscribe(count)
        world.store.mutate("deployments", "web", image("app:2"), "default")
        await world.pass_s(60)
        assert max(asked for asked, _ready in seen) == 5
        assert min(ready for _asked, ready in seen) == 3
        assert {p["spec"]["containers"][0]["image"] for p in world.pods("web")} == {"app:2"}
        world.store.mutate("deployments", "web", lambda o: o["spec"].update(template=first), "default")
        await world.pass_s(60)
        sets = world.store.list("replicasets")
        by_size = {s["spec"]["replicas"]: s["metadata"]["annotations"] for s in sets}
        assert by_size[4]["deployment.kubernetes.io/revision"] == "3"
        assert sorted(by_size) == [0, 4]

    stepping(play)


ROLL = [  # wanted, surge, unavailable, new (replicas, available), old [(replicas, available)], next
    ("first step surges", 4, 1, 1, (0, 0), [(4, 4)], {NEW: 1}),
    ("then the old gives way", 4, 1, 1, (1, 0), [(4, 4)], {OLD: 3}),
    ("new ones come into the room", 4, 1, 1, (1, 0), [(3, 3)], {NEW: 2}),
    ("what is not available does not count", 4, 1, 1, (2, 0), [(3, 3)], {}),
    ("availability frees the next", 4, 1, 1, (2, 2), [(3, 3)], {OLD: 1}),
    ("broken old ones go first", 4, 0, 1, (0, 0), [(4, 2)], {OLD: 3}),
    ("no surge: one down first", 3, 0, 1, (0, 0), [(3, 3)], {OLD: 2}),
    ("surge only: never below", 3, 1, 0, (1, 0), [(3, 3)], {}),
    ("scaled down meanwhile", 2, 1, 0, (3, 3), [], {NEW: 2}),
    ("at rest", 3, 1, 1, (3, 3), [(0, 0)], {}),
]


@pytest.mark.parametrize(("what", "wanted", "surge", "unavailable", "new", "old", "expected"), ROLL)
def test_the_next_step_of_a_rollout(what, wanted, surge, unavailable, new, old, expected):
    assert roll(wanted, surge, unavailable, Size(NEW, *new), [Size(OLD, *size) for size in old]) == expected


@pytest.mark.parametrize(
    ("replicas", "rolling", "expected"),
    [
        (10, {"maxSurge": "25%", "maxUnavailable": "25%"}, (3, 2)),
        (1, {"maxSurge": "25%", "maxUnavailable": "25%"}, (1, 0)),
        (4, {"maxSurge": 0, "maxUnavailable": 0}, (0, 1)),
        (2, {"maxSurge": 0, "maxUnavailable": "200%"}, (0, 2)),
    ],
)
def test_percentages_of_a_rollout(replicas, rolling, expected):
    assert fences({"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}) == expected


def pod(name, node="a", phase="Running", ready=True, cost=None, restarts=0, born="2026-01-01T00:00:00Z"):
    annotations = {DELETION_COST: cost} if cost else {}
    return {
        "metadata": {"name": name, "annotations": annotations, "creationTimestamp": born},
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


def test_which_pods_a_replicaset_gives_up_first():
    pods = [
        pod("old", "n1"),
        pod("young", "n2", born="2026-02-01T00:00:00Z"),
        pod("shaky", "n3", restarts=3),
        pod("crowded", "n4"),
        pod("crowded-shaky", "n4", restarts=1),
        pod("cheap", "n5", cost="-5"),
        pod("unready", "n6", ready=False),
        pod("pending", "n7", phase="Pending", ready=False),
        pod("nowhere", None, "Pending", False),
    ]
    assert [p["metadata"]["name"] for p in first_to_go(pods)] == [
        "nowhere",
        "pending",
        "unready",
        "cheap",
        "crowded-shaky",
        "crowded",
        "shaky",
        "young",
        "old",
    ]


def test_a_stateful_set_comes_up_in_order_and_goes_down_in_reverse():
    order = []

    async def play(world):
        world.store.subscribe(
            lambda c: (
                order.append((c.type, c.object["metadata"]["name"]))
                if c.resource.plural == "pods" and c.type in ("ADDED", "DELETED")
                else None
            )
        )
        world.create("statefulsets", "db", workload("db", 3, more={"serviceName": "db"}))
        await world.pass_s(2)
        assert len(world.pods("db")) == 2
        await world.pass_s(10)
        assert order == [("ADDED", f"db-{i}") for i in range(3)]
        labels = world.pod("db-1")["metadata"]["labels"]
        assert labels["statefulset.kubernetes.io/pod-name"] == "db-1"
        assert labels["apps.kubernetes.io/pod-index"] == "1"
        world.store.mutate("statefulsets", "db", lambda o: o["spec"].update(replicas=1), "default")
        await world.pass_s(10)
        assert order[3:] == [("DELETED", "db-2"), ("DELETED", "db-1")]

    stepping(play)


def test_a_stateful_pod_is_not_replaced_before_it_is_gone():
    async def play(world):
        world.create("statefulsets", "db", workload("db", 1, steer={"stop-s": 20}, more={"serviceName": "db"}))
        await world.pass_s(5)
        before = world.pod("db-0")["metadata"]["uid"]
        world.evict("db-0")
        await world.pass_s(19)
        assert [p["metadata"]["uid"] for p in world.pods("db")] == [before]
        await world.pass_s(5)
        assert world.pod("db-0")["metadata"]["uid"] != before
        assert world.ready("db")

    stepping(play)


@pytest.mark.parametrize(("partition", "expected"), [(0, ["2", "2", "2"]), (2, ["1", "1", "2"])])
def test_a_stateful_rollout_goes_from_the_top_down_to_the_partition(partition, expected):
    gone = []

    async def play(world):
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
        world.create("statefulsets", "db", workload("db", 3, more={"serviceName": "db", "updateStrategy": strategy}))
        await world.pass_s(15)
        world.store.subscribe(lambda c: gone.append(c.object["metadata"]["name"]) if c.type == "DELETED" else None)
        image = lambda o: o["spec"]["template"]["spec"]["containers"][0].update(image="app:2")  # noqa: E731
        world.store.mutate("statefulsets", "db", image, "default")
        await world.pass_s(60)
        images = [world.pod(f"db-{i}")["spec"]["containers"][0]["image"] for i in range(3)]
        assert [image.rpartition(":")[2] for image in images] == expected
        assert gone == sorted(gone, reverse=True)
        if partition:  # one below it comes back as it was
            world.evict("db-0")
            await world.pass_s(10)
            assert world.pod("db-0")["spec"]["containers"][0]["image"].endswith(":1")

    stepping(play)


def test_claims_of_a_stateful_set_outlive_their_pod():
    async def play(world):
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        more = {"serviceName": "db", "volumeClaimTemplates": [claim]}
        world.create("statefulsets", "db", workload("db", 1, more=more))
        await world.pass_s(5)
        found = world.get("persistentvolumeclaims", "data-db-0")
        assert found["status"]["phase"] == "Bound"
        world.evict("db-0")
        await world.pass_s(10)
        volumes = world.pod("db-0")["spec"]["volumes"]
        assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
        assert world.get("persistentvolumeclaims", "data-db-0")["metadata"]["uid"] == found["metadata"]["uid"]

    stepping(play)
