# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPU operator on a whole simulated cluster, against what was measured on the real one without GPUs."""

from __future__ import annotations

import time

from operated import NEW, OLD, budget, gpu_pods, operated

from simulator.gpu_operator import keys
from simulator.gpu_operator.operands import FEATURES, features
from simulator.gpu_operator.policy import operand_of
from simulator.nodes.gpus import make_machine
from simulator.objects import condition, is_terminating

PASS = "cordon, cordon*, wait*, pod-deletion*, pod-restart*, validation*, uncordon*, uncordon, done"
HOLD = {"key": "test", "value": "x", "effect": "NoSchedule"}


def test_four_nodes_one_after_another():
    async def play(cluster):
        cluster.patch(version=NEW)
        await cluster.until("all done", lambda: [cluster.driver(n) for n in "abcd"] == [NEW] * 4)
        await cluster.until("all done", lambda: cluster.cells() == ["done"] * 4)
        assert {cluster.line(n) for n in "abcd"} == {f"done, required, {PASS}"}
        assert {cluster.machines[n].driver for n in "abcd"} == {NEW}
        assert ("Normal", "Successfully updated node state label to upgrade-done") in cluster.events("a")
        state = lambda: cluster.store.get("clusterpolicies", "cluster-policy")["status"]["state"]  # noqa: E731
        await cluster.until("policy ready", lambda: state() == "ready")

    operated(play)


def test_arming_a_node_takes_no_tick_and_ends_held():
    async def play(cluster):
        for name in "abcd":
            cluster.label(name, keys.SKIP, "true")
        cluster.patch(version=NEW)
        await cluster.until("all required", lambda: cluster.cells() == ["required"] * 4)
        cluster.cordon("b")
        cluster.label("b", keys.STATE, None)
        await cluster.until("armed", lambda: cluster.cell("b") == "required*i", 1)
        cluster.label("b", keys.SKIP, None)
        await cluster.until("held", lambda: cluster.cell("b") == "done*")
        assert cluster.line("b") == (
            "done, required, required*, -*, -*i, required*i, cordon*i, wait*i, pod-deletion*i, pod-restart*i, "
            "validation*i, done*i, done*"
        )
        assert [cluster.cell(n) for n in "acd"] == ["required"] * 3

    operated(play)


def test_a_taint_that_the_driver_does_not_tolerate_freezes_all_nodes():
    async def play(cluster):
        cluster.taint("d", HOLD)
        await cluster.pass_s(10)
        cluster.patch(version=NEW)
        await cluster.pass_s(60)
        assert cluster.cells() == ["done"] * 4
        assert cluster.operand("d", "driver") is not None
        cluster.taint("d")
        await cluster.until("goes on", lambda: "required" in cluster.cells())

    operated(play)


def test_a_node_that_is_not_ready_freezes_all_nodes():
    async def play(cluster):
        cluster.machines["d"].alive = False
        cluster.cluster.kubelet.beat_now("d")
        await cluster.pass_s(10)
        cluster.patch(version=NEW)
        await cluster.pass_s(60)
        assert cluster.cells() == ["done"] * 4
        cluster.machines["d"].alive = True
        cluster.cluster.kubelet.beat_now("d")
        await cluster.until("goes on", lambda: "required" in cluster.cells())

    operated(play)


def test_a_taint_during_the_restart_hides_the_node_and_lets_the_others_go_on():
    async def play(cluster):
        cluster.patch(version=NEW)
        restarting = lambda n: is_terminating(cluster.operand(n, "driver"))  # noqa: E731
        await cluster.until("restarting", lambda: any(restarting(n) for n in "abcd"))
        name = next(n for n in "abcd" if restarting(n))
        cluster.taint(name, HOLD)
        others = [n for n in "abcd" if n != name]
        await cluster.until("others", lambda: [cluster.driver(n) for n in others] == [NEW] * 3)
        await cluster.until("others", lambda: [cluster.cell(n) for n in others] == ["done"] * 3)
        assert cluster.cell(name) == "pod-restart*"
        cluster.taint(name)
        await cluster.until("the tainted one", lambda: cluster.cells() == ["done"] * 4)

    operated(play)


def test_a_requested_upgrade_evicts_but_leaves_the_driver_pod():
    async def play(cluster):
        pod = cluster.workload("job", "a")["metadata"]
        before = cluster.operand("a", "driver")["metadata"]["uid"]
        cluster.annotate("a", keys.REQUESTED, "true")
        await cluster.until("the pass", lambda: "uncordon" in cluster.rows["a"] and cluster.cell("a") == "done")
        assert cluster.store.get("pods", pod["name"], "default") is None
        assert cluster.operand("a", "driver")["metadata"]["uid"] == before
        assert keys.REQUESTED not in cluster.node("a")["metadata"]["annotations"]

    operated(play, [gpu_pods("job", "a")])


def test_without_the_drain_block_nothing_is_noticed_and_the_newer_operator_goes_on():
    async def old(cluster):
        cluster.patch(version=NEW, upgradePolicy={"drain": None})
        await cluster.pass_s(60)
        assert cluster.cells() == ["done"] * 4
        cluster.patch(upgradePolicy={"drain": {"enable": False}})
        await cluster.until("noticed", lambda: "required" in cluster.cells())

    async def new(cluster):
        cluster.patch(version=NEW, upgradePolicy={"drain": None})
        await cluster.until("a node", lambda: NEW in [cluster.driver(n) for n in "abcd"])

    operated(old)
    operated(new, restart_only=True)


def test_auto_upgrade_switched_off_takes_the_labels_and_on_again_holds_the_node():
    async def play(cluster):
        cluster.patch(version=NEW)
        await cluster.until("evicting", lambda: "pod-deletion*" in cluster.cells())
        name = next(n for n in "abcd" if cluster.cell(n) == "pod-deletion*")
        assert name == "a"
        cluster.patch(upgradePolicy={"autoUpgrade": False})
        await cluster.until("labels gone", lambda: cluster.cells() == ["-*", "-", "-", "-"])
        assert keys.ENABLED not in cluster.node("a")["metadata"]["annotations"]
        cluster.store.delete("poddisruptionbudgets", "job", "default")
        cluster.patch(upgradePolicy={"autoUpgrade": True})
        await cluster.until("held", lambda: cluster.cell("a") == "done*" and cluster.driver("a") == NEW)

    operated(play, [gpu_pods("job", "a"), budget("job", 1)])


def test_a_crashing_driver_fails_the_node_until_it_is_cured_and_the_validator_is_not_asked():
    async def play(cluster):
        cluster.machines["a"].inject("driver_crashloop", {})
        for name in "bcd":
            cluster.label(name, keys.SKIP, "true")
        cluster.patch(version=NEW)
        await cluster.until("failed", lambda: cluster.cell("a") == "FAILED*")
        await cluster.pass_s(50)
        assert cluster.cell("a") == "FAILED*"
        cluster.machines["a"].inject("validator_stuck", {})
        cluster.machines["a"].faults.pop("driver_crashloop")
        await cluster.until("back", lambda: cluster.cell("a") == "done")
        assert cluster.line("a").endswith("pod-restart*, FAILED*, uncordon*, uncordon, done")

    operated(play)


def test_a_stuck_validator_fails_after_600_s_for_a_moment_and_the_node_serves():
    async def play(cluster):
        cluster.machines["a"].inject("validator_stuck", {})
        for name in "bcd":
            cluster.label(name, keys.SKIP, "true")
        cluster.patch(version=NEW)
        await cluster.until("validating", lambda: keys.VALIDATION_START in cluster.node("a")["metadata"]["annotations"])
        cluster.annotate("a", keys.VALIDATION_START, f"{time.time() - 500 / cluster.clock.speed:.3f}")
        began = cluster.clock.monotonic()
        await cluster.until("served", lambda: cluster.cell("a") == "done")
        assert 100 < cluster.clock.monotonic() - began < 180
        assert cluster.line("a").endswith("validation*, FAILED*, uncordon*, uncordon, done")
        assert not condition(cluster.operand("a", "validator"), "Ready")
        assert ("Normal", "Successfully updated node state label to upgrade-failed") in cluster.events("a")
        assert keys.VALIDATION_START not in cluster.node("a")["metadata"]["annotations"]

    operated(play)


def test_a_budget_blocks_until_the_time_is_up_and_the_event_says_so():
    async def play(cluster):
        cluster.patch(version=NEW, upgradePolicy={"podDeletion": {"timeoutSeconds": 15}})
        await cluster.until("failed", lambda: cluster.cell("a") == "FAILED*")
        kind, text = cluster.events("a")[-2]
        assert kind == "Warning"
        name = cluster.workload("job", "a")["metadata"]["name"]
        assert text.endswith(f'error when evicting pods/"{name}" -n "default": global timeout reached: 15s')
        cluster.store.delete("poddisruptionbudgets", "job", "default")
        await cluster.pass_s(45)
        assert cluster.cells() == ["FAILED*", "required", "required", "required"]
        assert cluster.driver("a") == OLD
        cluster.label("a", keys.STATE, keys.REQUIRED)
        await cluster.until("again", lambda: cluster.cell("a") == "done" and cluster.driver("a") == NEW)

    operated(play, [gpu_pods("job", "a"), budget("job", 1)])


def test_a_pod_without_controller_fails_the_node_at_once_and_stays():
    async def play(cluster):
        spec = {**gpu_pods("naked", "a")["spec"]["template"]["spec"], "nodeName": "a"}
        cluster.store.create(
            "pods", {"metadata": {"name": "naked", "labels": {"app": "naked"}}, "spec": spec}, "default"
        )
        await cluster.until("running", lambda: cluster.workload("naked", "a"))
        cluster.patch(version=NEW)
        await cluster.until("failed", lambda: cluster.cell("a") == "FAILED*")
        assert not is_terminating(cluster.workload("naked", "a"))
        assert [text for kind, text in cluster.events("a") if kind == "Warning"] == []

    operated(play)


def test_a_skipped_node_takes_the_new_version_when_its_driver_pod_is_lost():
    async def play(cluster):
        for name in "abcd":
            cluster.label(name, keys.SKIP, "true")
        cluster.patch(version=NEW)
        await cluster.until("all required", lambda: cluster.cells() == ["required"] * 4)
        pod = cluster.operand("c", "driver")["metadata"]
        cluster.store.delete("pods", pod["name"], pod["namespace"])
        await cluster.until("new driver", lambda: cluster.driver("c") == NEW)
        assert cluster.cells() == ["required"] * 4

    operated(play)


def test_any_change_of_the_template_is_a_rollout():
    async def play(cluster):
        cluster.store.mutate(
            "clusterpolicies",
            "cluster-policy",
            lambda o: o["spec"]["daemonsets"]["tolerations"].append({"key": "more", "operator": "Exists"}),
        )
        await cluster.until("all required", lambda: all("required" in cluster.rows[n] for n in "abcd"))

    operated(play)


def test_a_changed_skip_label_of_any_value_wakes_the_controller():
    async def play(cluster):
        for name in "bcd":
            cluster.label(name, keys.SKIP, "true")
        cluster.patch(version=NEW)
        ready = lambda: condition(cluster.operand("a", "validator") or {}, "Ready")  # noqa: E731
        await cluster.until("validator", lambda: cluster.driver("a") == NEW and ready())
        await cluster.pass_s(10)
        assert cluster.cell("a") == "pod-restart*"
        cluster.label("a", keys.SKIP, "nudge-1")
        await cluster.until("done", lambda: cluster.cell("a") == "done", 1)

    operated(play, tick_s=3000)


def test_operands_are_paused_while_the_driver_is_replaced():
    async def play(cluster):
        seen = set()

        def watch(change):
            if change is not None and change.resource.plural == "nodes" and change.object["metadata"]["name"] == "a":
                labels = change.object["metadata"]["labels"]
                seen.update((k, v) for k, v in labels.items() if k.startswith("nvidia.com/gpu.deploy."))
                seen.add(("product", labels.get("nvidia.com/gpu.product")))
                seen.add(("allocatable", change.object["status"]["allocatable"].get("nvidia.com/gpu")))

        cluster.store.subscribe(watch)
        cluster.patch(version=NEW)
        await cluster.until("done", lambda: cluster.driver("a") == NEW and cluster.cell("a") == "done")
        assert ("nvidia.com/gpu.deploy.device-plugin", keys.PAUSED) in seen
        assert ("nvidia.com/gpu.deploy.driver", keys.PAUSED) not in seen
        assert {("product", None), ("allocatable", "0")} <= seen
        labels = cluster.node("a")["metadata"]["labels"]
        assert {v for k, v in labels.items() if k.startswith("nvidia.com/gpu.deploy.")} == {"true"}
        assert cluster.node("a")["status"]["allocatable"]["nvidia.com/gpu"] == "8"

    operated(play)


def test_without_auto_upgrade_a_restarted_driver_pod_opens_a_node_that_a_person_closed():
    async def play(cluster):
        cluster.cordon("b")
        cluster.cordon("c")
        before = cluster.operand("b", "driver")["metadata"]
        cluster.store.delete("pods", before["name"], before["namespace"])
        await cluster.until("new pod", lambda: (cluster.operand("b", "driver") or before)["metadata"] != before)
        await cluster.until("opened", lambda: cluster.cell("b") == "-")
        assert cluster.cell("c") == "-*"

    operated(play, upgrade_policy={"autoUpgrade": False})


def test_with_auto_upgrade_a_restarted_driver_pod_leaves_the_cordon():
    async def play(cluster):
        cluster.cordon("b")
        pod = cluster.operand("b", "driver")["metadata"]
        cluster.store.delete("pods", pod["name"], pod["namespace"])
        again = lambda: cluster.operand("b", "driver") or {"metadata": pod}  # noqa: E731
        await cluster.until("new pod", lambda: again()["metadata"]["uid"] != pod["uid"] and condition(again(), "Ready"))
        assert cluster.cell("b") == "done*"

    operated(play)


def test_features_are_those_that_feature_discovery_takes_away_again():
    assert set(features(make_machine("a", 8, NEW, "NVIDIA-H100-80GB-HBM3", 0))) == set(FEATURES)


def test_operands_become_ready_in_the_order_of_their_init_containers():
    async def play(cluster):
        order = []

        def watch(change):
            if change is not None and change.resource.plural == "pods" and condition(change.object, "Ready"):
                operand = operand_of(change.object)
                if change.object["spec"]["nodeName"] == "a" and operand and operand not in order:
                    order.append(operand)

        cluster.patch(version=NEW)
        await cluster.until("unloaded", lambda: cluster.machines["a"].driver is None)
        cluster.store.subscribe(watch)
        await cluster.until("done", lambda: cluster.driver("a") == NEW and cluster.cell("a") == "done")
        assert (order[:2], order[-1], len(order)) == (["driver", "toolkit"], "validator", 8)

    operated(play)
