# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The upgrade of a node's driver, and what is left when it dies, is hindered or meets a sick node."""

from __future__ import annotations

import json

import pytest
from upgrading import HOLD, INITIAL, MARK, NEW, OLD, SKIP, STATE, VERSION, Fleet, Killed

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import driver_upgrade, patience, rollout
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed, Task


@pytest.fixture(autouse=True)
def short_times(monkeypatch):
    monkeypatch.setattr(driver_upgrade, "NOTICE_S", 0.4)
    monkeypatch.setattr(driver_upgrade, "TICK_S", 0.02)
    monkeypatch.setattr(driver_upgrade, "PROGRESS_S", 0.1)
    monkeypatch.setattr(driver_upgrade, "NUDGE_EVERY_S", 0.1)
    monkeypatch.setattr(rollout, "SETTLE_S", 0)


def task_for(fleet, node="a", check_mode=False, run="run-1", **params):
    values = {name: option.get("default") for name, option in driver_upgrade.ARGUMENT_SPEC.items()}
    values.update({"node": node, "version": NEW, "timeout_s": 10, **params})
    task = Task("driver_upgrade", values, check_mode=check_mode, run=run, kube=fleet)
    task.lines, task.warnings = [], []
    task.progress, task.warn = task.lines.append, task.warnings.append
    task.sleep = lambda _s: None
    return task


def upgrade(fleet, node="a", **params):
    task = task_for(fleet, node, **params)
    return task, driver_upgrade.run(task)


def failing(fleet, **params):
    task = task_for(fleet, **params)
    with pytest.raises(Failed) as failed:
        driver_upgrade.run(task)
    return task, failed.value


@pytest.fixture
def fleet():
    found = Fleet()
    found.hold("a")
    return found


def assert_upgraded_and_closed(fleet, name):
    assert (fleet.labels(name)[VERSION], fleet.labels(name)[STATE]) == (NEW, "upgrade-done")
    assert SKIP not in fleet.labels(name)
    assert not {MARK, INITIAL} & set(fleet.annotations(name))
    assert fleet.is_cordoned(name)


def test_one_node_is_upgraded_and_the_others_wait(fleet):
    task, result = upgrade(fleet)
    assert_upgraded_and_closed(fleet, "a")
    assert task.changed is True
    assert result["version"] == {"before": OLD, "after": NEW}
    assert result["left_skipped"] == ["b", "c"]
    assert result["nudges"] >= 1
    walked = [entry["state"] for entry in result["states"] if entry["armed"]]
    assert walked[0] == "upgrade-required"
    assert "pod-restart-required" in walked
    for name in "bc":
        assert (fleet.labels(name)[STATE], fleet.labels(name)[SKIP]) == ("upgrade-required", "true")
        assert json.loads(fleet.annotations(name)[MARK])["run"] == "run-1"
        assert fleet.labels(name)[VERSION] == OLD


def test_the_policy_is_written_once_and_the_second_node_is_armed_first(fleet):
    upgrade(fleet)
    fleet.hold("b")
    first = len(fleet.writes)
    _task, result = upgrade(fleet, "b")
    assert_upgraded_and_closed(fleet, "b")
    assert result["left_skipped"] == ["c"]
    bodies = [body["metadata"] for kind, _name, body in fleet.writes[first:] if kind == "nodes"]
    assert bodies[0]["labels"] == {STATE: None}
    assert bodies[1]["labels"] == {SKIP: None}
    assert [kind for kind, *_rest in fleet.writes].count("clusterpolicies") == 1


def test_again_changes_nothing(fleet):
    upgrade(fleet)
    before = len(fleet.writes)
    task, _result = upgrade(fleet)
    assert (task.changed, len(fleet.writes)) == (False, before)


def writes_of_a_whole_upgrade():
    fleet = Fleet()
    fleet.hold("a")
    upgrade(fleet)
    fleet.hold("b")
    before = len(fleet.writes)
    upgrade(fleet, "b")
    return before, len(fleet.writes) - before


FIRST, SECOND = 9, 4  # writes of the first and of another node; test_there_is_a_kill_for_each_write holds them to it


def test_there_is_a_kill_for_each_write():
    first, second = writes_of_a_whole_upgrade()
    assert first <= FIRST
    assert second <= SECOND


@pytest.mark.parametrize("at", range(1, FIRST + 1))
def test_killed_after_any_write_it_is_gone_on_with(at):
    fleet = Fleet(kill_at=at)
    fleet.hold("a")
    try:
        upgrade(fleet)
    except Killed:
        assert not any(fleet.labels(name)[VERSION] == NEW and not fleet.is_cordoned(name) for name in "bc")
    fleet.kill_at = None
    upgrade(fleet)
    assert_upgraded_and_closed(fleet, "a")
    assert [fleet.labels(name).get(SKIP) for name in "bc"] == ["true", "true"]
    assert {name for name, state in fleet.states if state == "pod-restart-required"} == {"a"}


@pytest.mark.parametrize("at", range(1, SECOND + 1))
def test_killed_on_a_later_node_it_is_gone_on_with(fleet, at):
    upgrade(fleet)
    fleet.hold("b")
    fleet.kill_at = len(fleet.writes) + at
    try:
        upgrade(fleet, "b")
    except Killed:
        assert fleet.is_cordoned("b")
    fleet.kill_at = None
    upgrade(fleet, "b")
    assert_upgraded_and_closed(fleet, "b")
    assert fleet.states.count(("b", "pod-restart-required")) == 1


REFUSED = [
    ("open", lambda f: f.edit("nodes", "a", lambda o: o["spec"].clear()), "not cordoned any more"),
    ("not drained", lambda f: f.add_workload("a"), "gpu-operator/trainer"),
    ("skipped by somebody", lambda f: f.label("a", SKIP, "true"), "did not set"),
    (
        "no automatic upgrade",
        lambda f: f.edit("clusterpolicies", "cluster-policy", lambda o: o["spec"]["driver"].pop("upgradePolicy")),
        "autoUpgrade off",
    ),
    (
        "GitOps",
        lambda f: f.edit(
            "clusterpolicies",
            "cluster-policy",
            lambda o: o["metadata"].update(annotations={"argocd.argoproj.io/x": ""}),
        ),
        "GitOps",
    ),
    ("another node in flight", lambda f: f.label("b", STATE, "drain-required"), "b is in the operator's state"),
    (
        "a taint that freezes it",
        lambda f: (
            f.edit("nodes", "c", lambda o: o["spec"].update(taints=[{"key": "x/out", "effect": "NoSchedule"}])),
            f.edit("daemonsets", "driver", lambda o: o["status"].update(desiredNumberScheduled=2)),
        ),
        "c has taint x/out:NoSchedule",
    ),
    (
        "the node is not Ready",
        lambda f: f.edit("nodes", "a", lambda o: o["status"].update(conditions=[])),
        "a is not Ready",
    ),
    ("no policy", lambda f: f.store["clusterpolicies"].clear(), "there are: none"),
]


@pytest.mark.parametrize(("case", "spoil", "says"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refused_before_anything_is_changed(fleet, case, spoil, says):
    spoil(fleet)
    task, failed = failing(fleet)
    assert says in failed.message
    assert fleet.writes == []
    assert task.changed is False


@pytest.mark.parametrize(
    "case", [case for case in REFUSED if case[0] not in ("open", "not drained")], ids=lambda c: c[0]
)
def test_a_check_refuses_the_same(fleet, case):
    case[1](fleet)
    task, failed = failing(fleet, check_mode=True)
    assert case[2] in failed.message
    assert fleet.writes == []


def test_a_check_plans_without_hold_and_drain_and_writes_nothing():
    fleet = Fleet()
    fleet.add_workload("a")
    task, result = upgrade(fleet, check_mode=True)
    assert task.changed is True
    assert f"driver.version {OLD} -> {NEW}" in " ".join(result["steps"])
    assert result["version"] == {"before": OLD, "after": NEW}
    assert fleet.writes == []


def test_a_check_of_an_upgraded_node_has_nothing_to_do(fleet):
    upgrade(fleet)
    task, result = upgrade(fleet, check_mode=True)
    assert (task.changed, result["steps"]) == (False, [])


def test_gitops_is_accepted_when_asked_and_helm_is_only_warned_about(fleet):
    def mark(obj):
        obj["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm", "argocd.argoproj.io/instance": "x"}

    fleet.edit("clusterpolicies", "cluster-policy", mark)
    task, _result = upgrade(fleet, accept_gitops=True)
    assert_upgraded_and_closed(fleet, "a")
    assert ["Helm release gpu-operator" in text for text in task.warnings] == [True]


def test_skip_labels_of_others_stay(fleet):
    fleet.label("b", SKIP, "true")
    _task, result = upgrade(fleet)
    assert fleet.labels("b")[SKIP] == "true"
    assert MARK not in fleet.annotations("b")
    assert result["left_skipped"] == ["c"]


def test_an_operator_that_does_not_note_the_cordon_is_not_let_start(fleet):
    fleet.behaves = False
    _task, failed = failing(fleet)
    assert "did not mark a as cordoned" in failed.message
    assert ("a", "pod-restart-required") not in fleet.states
    assert fleet.labels("a")[SKIP] == "true"


def test_an_operator_that_sleeps_is_told_with_what_stops_it(fleet):
    fleet.asleep = True
    task, failed = failing(fleet)
    assert "did not begin with a" in failed.message
    assert "a stays held" in failed.message
    assert failed.result["version"] == {"before": OLD, "after": OLD}
    assert task.changed is True


def test_a_version_set_back_by_somebody_else_is_not_fought_over(fleet):
    upgrade(fleet)
    fleet.hold("b")
    fleet.asleep = True
    task = task_for(fleet, "b")

    def set_back(line):
        task.lines.append(line)
        fleet.edit("clusterpolicies", "cluster-policy", lambda o: o["spec"]["driver"].update(version=OLD))

    task.progress = set_back
    with pytest.raises(Failed, match=f"the ClusterPolicy wants driver {OLD} again"):
        driver_upgrade.run(task)
    assert [kind for kind, *_rest in fleet.writes].count("clusterpolicies") == 1


def test_a_driver_that_does_not_start_ends_at_its_states_limit(fleet, monkeypatch):
    monkeypatch.setattr(patience, "limit_s", lambda _seen, _rules: 0.3)
    fleet.never = {"driver"}
    _task, failed = failing(fleet)
    assert "stays in pod-restart-required" in failed.message
    assert "driver pod driver-a is not Ready" in failed.message
    assert fleet.is_cordoned("a")


def test_the_whole_time_is_limited_too(fleet):
    fleet.never = {"validator"}
    _task, failed = failing(fleet, timeout_s=1)
    assert "did not end within 1 s (validation-required" in failed.message
    assert "validator pod validator-a is not Ready" in failed.message
    assert failed.result["states"][-1]["state"] == "validation-required"


def test_a_validation_that_the_operator_gave_up_is_latched(fleet):
    """It shows upgrade-failed for a moment only, and calls the node done."""
    fleet.never = {"validator"}
    task = task_for(fleet)

    def give_up(line):
        task.lines.append(line)
        if line.endswith("validation-required"):
            fleet.give_up("a")

    task.progress = give_up
    with pytest.raises(Failed) as failed:
        driver_upgrade.run(task)
    assert "gave the upgrade of a up" in failed.value.message
    assert "(the operator says: validation took too long)" in failed.value.message
    assert fleet.is_cordoned("a")
    _task, again = failing(fleet)
    assert "gave the upgrade of a up" in again.message
    fleet.make_ready("a", "validator")
    upgrade(fleet)
    assert_upgraded_and_closed(fleet, "a")


def test_a_node_opened_in_flight_is_an_alarm(fleet):
    fleet.never = {"driver"}
    task = task_for(fleet)

    def open_it(line):
        task.lines.append(line)
        if line.endswith("pod-restart-required"):
            fleet.edit("nodes", "a", lambda o: o["spec"].pop("unschedulable"))

    task.progress = open_it
    with pytest.raises(Failed) as failed:
        driver_upgrade.run(task)
    assert "not cordoned any more" in failed.value.message
    assert "stays held" not in failed.value.message


def test_an_upgrade_that_began_unarmed_is_followed_and_its_opening_is_an_alarm(fleet):
    """Somebody took the skip label off before the node was armed."""
    upgrade(fleet)
    fleet.hold("b")
    fleet.label("b", SKIP, None)
    fleet.wake()
    task, failed = failing(fleet, node="b")
    assert ["will uncordon it" in text for text in task.warnings] == [True]
    assert "not cordoned any more" in failed.message


def test_the_node_was_re_created(fleet):
    fleet.asleep = True
    task = task_for(fleet)

    def replace(line):
        task.lines.append(line)
        node = fleet.node("a")
        if node["metadata"]["uid"] == "uid-a":
            fleet._remove("nodes", node)
            fleet._add("nodes", {**node, "metadata": {**node["metadata"], "uid": "another"}})

    task.progress = replace
    with pytest.raises(Failed, match="is gone and there is another of that name|is not the one this began with"):
        driver_upgrade.run(task)


def test_a_failed_node_goes_back_with_another_version(fleet):
    upgrade(fleet)
    fleet.hold("b")
    upgrade(fleet, "b")
    fleet.label("b", STATE, "upgrade-failed")
    fleet.annotate("b", INITIAL, "true")
    task = task_for(fleet, "b")
    task.params["version"] = OLD
    result = driver_upgrade.run(task)
    assert result["version"] == {"before": NEW, "after": OLD}
    assert fleet.labels("b")[VERSION] == OLD
    assert fleet.is_cordoned("b")
    assert HOLD in fleet.annotations("b")
