# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole operation against a small cluster: what is evicted, when it ends, what it says."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import loop, operation, rounds
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from tests.unit.drain.cluster import POD_MISSING, Cluster
from tests.unit.drain.driving import Drain, names, web
from tests.unit.drain.shapes import node, pdb, pod


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The same loop with a faster clock."""
    monkeypatch.setattr(loop, "TICK_S", 0.02)
    monkeypatch.setattr(rounds, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(rounds, "LONGEST_PAUSE_S", 0.05)
    monkeypatch.setattr(rounds, "UNSEEN_S", 0.05)


def test_an_empty_node_costs_three_reads_and_changes_nothing():
    cluster = Cluster(node(), [pod(phase="Succeeded")])
    drain = Drain(cluster)
    assert drain.error is None
    assert drain.outcomes == {"web-1": "skipped"}
    assert drain.task.changed is False
    assert cluster.evictions == []
    assert drain.result["requests"] == 3


@pytest.mark.parametrize("count", [1, 30])  # 1: T25 (kubernetes.core#769)
def test_pods_without_budget_all_go(count):
    cluster = Cluster(node(), web(count))
    drain = Drain(cluster)
    assert drain.error is None
    assert set(drain.outcomes.values()) == {"evicted"}
    assert len(cluster.evictions) == count
    assert drain.task.changed is True
    assert drain.result["requests"] <= count + 10
    assert {p["attempts"] for p in drain.result["pods"]} == {1}


def test_a_shared_budget_is_never_asked_for_more_than_it_shows():
    cluster = Cluster(node(), web(8), [pdb(allowed=2, expected=10)])
    drain = Drain(cluster)
    assert drain.error is None
    assert len(cluster.evictions) == 8
    assert drain.result["requests"] <= 8 + 10


def test_daemonsets_stay_and_are_looked_up_once():
    agents = [pod(f"agent-{n}", owner="DaemonSet/agent") for n in range(3)]
    cluster = Cluster(
        node(), [*agents, *web(1)], daemonsets=[{"metadata": {"namespace": "shop", "name": "agent", "uid": "d"}}]
    )
    drain = Drain(cluster)
    assert drain.outcomes == {"agent-0": "skipped", "agent-1": "skipped", "agent-2": "skipped", "web-0": "evicted"}
    assert names(cluster) == ["web-0"]


def test_nothing_at_all_is_evicted_while_one_pod_needs_a_decision():
    disk = [{"name": "scratch", "emptyDir": {}}]
    cluster = Cluster(node(), [*web(2), pod("notebook", owner=None), pod("cache", volumes=disk)])
    drain = Drain(cluster)
    assert cluster.evictions == []
    assert drain.task.changed is False
    assert "shop/notebook" in drain.error
    assert "shop/cache" in drain.error
    assert "delete_emptydir_data=true" in drain.error
    assert "evict_unmanaged=true" in drain.error
    assert drain.pods["notebook"]["blocked_by"] == ["option evict_unmanaged"]


def test_the_options_let_them_go():
    disk = [{"name": "scratch", "emptyDir": {}}]
    cluster = Cluster(node(), [pod("notebook", owner=None), pod("cache", volumes=disk)])
    drain = Drain(cluster, delete_emptydir_data=True, evict_unmanaged=True)
    assert drain.outcomes == {"cache": "evicted", "notebook": "evicted"}


@pytest.mark.parametrize(("given", "sent"), [(None, None), (0, 0), (45, 45)])  # 0: M-1
def test_grace_period(given, sent):
    cluster = Cluster(node(), web(1))
    Drain(cluster, grace_period_s=given)
    assert cluster.graces == [sent]


def test_the_default_deadline_outlasts_the_longest_grace():
    drain = Drain(
        Cluster(node(), [pod(grace=900), pod("b", grace=10), pod("c", grace=5000, phase="Failed")]), timeout_s=None
    )
    assert drain.result["deadline_s"] == 1500


def test_T26_a_deadline_shorter_than_a_grace_is_warned_of():
    drain = Drain(Cluster(node(), [pod(grace=900)]), timeout_s=60)
    assert "900 s" in drain.warnings[0]
    assert drain.result["deadline_s"] == 60


def test_T1_the_deadline_fails_and_names_pod_budget_and_numbers():
    cluster = Cluster(node(), web(1), [pdb(allowed=0, needs=1, has=1, expected=1)])
    drain = Drain(cluster, timeout_s=0)
    assert "shop/web-0" in drain.error
    assert "needs 1 healthy, has 1 of 1" in drain.error
    assert "loosen budget shop/web" in drain.error
    assert "run the same command again" in drain.error
    assert drain.outcomes == {"web-0": "left"}
    assert drain.pods["web-0"]["blocked_by"] == ["pdb shop/web"]
    assert drain.task.changed is False


def test_M3_a_failed_drain_says_that_it_changed_something():
    cluster = Cluster(node(), [pod("free", labels={}), *web(1)], [pdb(allowed=0)])
    drain = Drain(cluster, timeout_s=1)
    assert drain.error
    assert drain.task.changed is True
    assert drain.outcomes == {"free": "evicted", "web-0": "left"}


def test_T30_a_pod_held_by_a_finalizer_is_named_with_it():
    cluster = Cluster(node(), web(1, finalizers=["example.com/volume"]))
    drain = Drain(cluster, timeout_s=1)
    assert "example.com/volume" in drain.error
    assert drain.pods["web-0"]["blocked_by"] == ["finalizer example.com/volume"]
    assert len(cluster.evictions) == 1


FREE_UP = errors.TooManyRequests("Cannot evict pod", 429, "TooManyRequests", [("DisruptionBudget", "needs", "")])
BLIPS = [
    ("500", errors.Unavailable("etcd", 500)),
    ("503", errors.Unavailable("away", 503)),
    ("T49 EOF", errors.Unreachable("EOF")),
    ("throttled", errors.TooManyRequests("slow down", 429)),
    ("T47 webhook", errors.Forbidden('admission webhook "w" denied the request', 403)),
    ("namespace terminating", errors.Forbidden("", 403, causes=[("NamespaceTerminating", "", "")])),
    ("M-2 budget, although it showed room", FREE_UP),
    ("conflict in the server", errors.Conflict("again", 409, details={"kind": "poddisruptionbudgets"})),
    ("T20 another pod of that name, says the server", errors.Conflict("uid", 409, details={"kind": "Pod"})),
    ("not found, and yet it is there", POD_MISSING),
]


@pytest.mark.parametrize("error", [c[1] for c in BLIPS], ids=[c[0] for c in BLIPS])
def test_no_passing_refusal_ends_a_drain(error):
    cluster = Cluster(node(), web(3), [pdb(allowed=3, expected=9)], script={"web-1": [error, error]})
    drain = Drain(cluster)
    assert drain.error is None
    assert set(drain.outcomes.values()) == {"evicted"}
    assert drain.pods["web-1"]["attempts"] == 3


@pytest.mark.parametrize("error", [errors.Forbidden("may not", 403), errors.Invalid("bad", 400)])
def test_what_asking_again_does_not_cure_fails_after_the_others_went(error):
    cluster = Cluster(node(), web(3), script={"web-1": [error] * 9})
    drain = Drain(cluster)
    assert drain.outcomes == {"web-0": "evicted", "web-1": "failed", "web-2": "evicted"}
    assert drain.pods["web-1"]["attempts"] == 1
    assert error.message in drain.pods["web-1"]["last_error"]
    assert "cannot be finished" in drain.error


def test_an_eviction_whose_answer_was_lost_counts_as_a_change():
    def done_but_unanswered(cluster, victim):
        cluster._evict(victim["metadata"]["name"], victim["metadata"]["uid"])
        return errors.Unreachable("timed out")

    cluster = Cluster(node(), web(1), script={"web-0": [done_but_unanswered]})
    drain = Drain(cluster)
    assert drain.outcomes == {"web-0": "evicted"}
    assert drain.task.changed is True
    assert len(cluster.evictions) == 1


def test_a_pod_that_is_leaving_is_not_evicted_again_although_the_watch_is_late():
    def unnoticed(cluster, victim):
        victim["metadata"]["deletionTimestamp"] = "2026-12-01T12:00:30Z"
        threading.Timer(0.3, cluster.end, [victim["metadata"]["uid"]]).start()
        return errors.Unreachable("timed out")

    cluster = Cluster(node(), web(1), script={"web-0": [unnoticed]})
    drain = Drain(cluster)
    assert drain.outcomes == {"web-0": "evicted"}
    assert len(cluster.evictions) == 1


def test_T19_a_successor_of_the_same_name_on_another_node_is_not_touched():
    successor = pod("web-0", uid="uid-successor", node="gpu-node-b")

    def replaced(cluster, victim):
        cluster.store["pods"].pop(victim["metadata"]["uid"])
        cluster.store["pods"]["uid-successor"] = successor
        return errors.Unavailable("away", 503)

    cluster = Cluster(node(), web(1), [pdb(allowed=1)], script={"web-0": [replaced]})
    Drain(cluster, timeout_s=1)
    assert cluster.evictions == [("web-0", "uid-web-0")]
    assert any(path.endswith("/pods/web-0") for path in cluster.reads)


def test_T21_a_stateful_pod_is_gone_when_its_uid_is():
    def moved(cluster, victim):
        cluster.end(victim["metadata"]["uid"])
        return POD_MISSING

    cluster = Cluster(node(), web(1, owner="StatefulSet/web"), script={"web-0": [moved]})
    drain = Drain(cluster)
    assert drain.error is None
    assert drain.outcomes == {"web-0": "gone"}
    assert drain.task.changed is False


def test_a_pod_bound_between_list_and_hold_is_drained_too():
    def another_arrives(cluster, _victim):
        cluster.put("pods", pod("late", owner="ReplicaSet/late"), "ADDED")

    cluster = Cluster(node(), web(1), script={"web-0": [another_arrives]})
    drain = Drain(cluster)
    assert drain.outcomes == {"late": "evicted", "web-0": "evicted"}


def test_T38_a_controller_whose_pods_come_back_is_stopped_and_explained():
    everything = [{"operator": "Exists"}]
    count = iter(range(100))

    def comes_back(cluster, victim):
        fresh = pod(
            f"back-{next(count)}", owner="ReplicaSet/web", tolerations=everything, created="2026-12-01T12:00:01Z"
        )
        cluster.script[fresh["metadata"]["name"]] = [comes_back]
        cluster._evict(victim["metadata"]["name"], victim["metadata"]["uid"])
        cluster.put("pods", fresh, "ADDED")
        return "swallowed"

    cluster = Cluster(node(), web(1, tolerations=everything), script={"web-0": [comes_back]})
    drain = Drain(cluster)
    assert "came back to this node 3 times: it tolerates the cordon" in drain.error
    assert len(cluster.evictions) == 3
    assert drain.outcomes["back-2"] == "failed"


def test_pods_bound_before_the_hold_took_effect_are_no_return():
    def others_arrive(cluster, victim):
        for n in range(4):
            cluster.put("pods", pod(f"late-{n}", created="2026-12-01T11:59:59Z"), "ADDED")
        cluster._evict(victim["metadata"]["name"], victim["metadata"]["uid"])
        return "swallowed"

    drain = Drain(Cluster(node(), web(1), script={"web-0": [others_arrive]}))
    assert drain.error is None
    assert len(drain.outcomes) == 5


def test_pods_that_were_there_at_the_start_are_no_return():
    young = web(5, created="2026-12-01T12:00:00Z")
    drain = Drain(Cluster(node(), young, [pdb(allowed=1, expected=9)]))
    assert drain.error is None


def test_a_pod_read_on_another_node_is_not_evicted():
    def elsewhere(cluster, victim):
        victim["spec"]["nodeName"] = "gpu-node-b"
        return errors.Unavailable("away", 503)

    cluster = Cluster(node(), web(1), script={"web-0": [elsewhere]})
    Drain(cluster, timeout_s=1)
    assert len(cluster.evictions) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.put("nodes", node(cordoned=False)), "opened again by somebody else"),
        (lambda c: c.put("nodes", node(), "DELETED"), "was deleted"),
        (lambda c: (c.put("nodes", node(), "DELETED"), c.put("nodes", node(uid="new"), "ADDED")), "was deleted"),
    ],
    ids=["T43 uncordoned", "deleted", "created again"],
)
def test_a_node_that_is_no_longer_held_stops_the_drain(change, words):
    def disturbed(cluster, _victim):
        change(cluster)

    cluster = Cluster(node(), web(2), [pdb(allowed=1, expected=3)], script={"web-0": [disturbed]}, restores=False)
    drain = Drain(cluster)
    assert words in drain.error
    assert names(cluster) == ["web-0"]
    assert drain.task.changed is True
    assert drain.outcomes["web-1"] == "left"


def test_a_watch_that_may_not_go_on_ends_the_drain_with_its_cause():
    def revoked(cluster, _victim):
        cluster.forbidden.add("pods")
        raise_in_watch(cluster)

    def raise_in_watch(cluster):
        cluster.put("pods", {"metadata": {"uid": "x"}}, "BREAK")

    cluster = Cluster(node(), web(2), script={"web-0": [revoked]}, ends_s=None)
    watch = cluster.watch

    def breaking(path, version, **query):
        for kind, item in watch(path, version, **query):
            if kind == "BREAK":
                raise errors.Expired("too old", 410)
            yield kind, item

    cluster.watch = breaking
    drain = Drain(cluster)
    assert "pods is forbidden" in drain.error
    assert drain.result["pods"]


def test_a_lost_lock_stops_at_once(monkeypatch):
    def lost():
        raise Failed("Another run has taken it over")

    def drain_with_lost_lock(task):
        task.add_guard(lost)
        return drain(task)

    drain = operation._drain
    monkeypatch.setattr(operation, "_drain", drain_with_lost_lock)
    cluster = Cluster(node(), web(3))
    stopped = Drain(cluster)
    assert "Another run" in stopped.error
    assert cluster.evictions == []
    assert stopped.task.changed is False


@pytest.mark.parametrize(
    ("held", "params", "words"),
    [
        (node(cordoned=False), {}, "Hold it first with gpuops.lifecycle.cordon"),
        (node(), {"owner": "team-a"}, "is not held by team-a"),
        (node(), {"node_uid": "old"}, "not the one this began with"),
        (node(), {"node": "nowhere"}, "There is no node nowhere"),
        (node(), {"parallel": 0}, "parallel must be 1 or more"),
        (node(), {"grace_period_s": -1}, "grace_period_s must be 0 or more"),
        (node(annotations={"lifecycle.gpuops.io/hold": "{"}), {"owner": "gpuops"}, "is not JSON"),
    ],
)
def test_refused_before_anything_is_touched(held, params, words):
    cluster = Cluster(held, web(1))
    if params.get("node"):
        cluster.store["nodes"] = {}
    drain = Drain(cluster, **params)
    assert words in drain.error
    assert cluster.evictions == []
    assert drain.task.changed is False


def test_a_hold_of_the_given_owner_is_enough_without_a_cordon():
    annotations = {"lifecycle.gpuops.io/hold": '[{"owner": "gpuops"}]'}
    drain = Drain(Cluster(node(cordoned=False, annotations=annotations), web(1)), owner="gpuops")
    assert drain.error is None


def test_budgets_that_may_not_be_read_make_it_slower_not_wrong():
    cluster = Cluster(node(), web(3), [pdb(allowed=1, expected=9)], forbidden={"poddisruptionbudgets"})
    drain = Drain(cluster)
    assert drain.error is None
    assert set(drain.outcomes.values()) == {"evicted"}
    assert "may not be read" in drain.warnings[0]


def test_progress_names_what_is_waited_for():
    cluster = Cluster(node(), web(1), [pdb(allowed=0, needs=2, has=2, expected=3)])
    drain = Drain(cluster, timeout_s=0)
    assert drain.lines == [
        "waits for 1 pod (0 s): shop/web-0: budget web allows no disruption: needs 2 healthy, has 2 of 3"
    ]


@pytest.mark.parametrize(("check_mode", "after"), [(True, []), (False, ["shop/web-0"])])
def test_diff_shows_the_pods_that_go(check_mode, after):
    cluster = Cluster(node(), [pod("free", labels={}), *web(1), pod("done", phase="Failed")], [pdb(allowed=0)])
    diff = Drain(cluster, check_mode=check_mode, diff=True, timeout_s=1).result["diff"]
    assert diff["before"] == {"pods_to_evict": ["shop/free", "shop/web-0"]}
    assert diff["after"] == {"pods_to_evict": after}


def test_a_drain_of_ten_pods_costs_little():
    cluster = Cluster(node(), web(10), [pdb(allowed=1, expected=12)])
    before = time.process_time()
    assert Drain(cluster).error is None
    assert time.process_time() - before < 0.2
