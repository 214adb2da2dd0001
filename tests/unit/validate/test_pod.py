# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The diagnostics run as Jobs: whatever happens to the Job, only a complete log of a good run passes."""

from __future__ import annotations

import copy

import pytest
from jobs import GONE, NODE, Jobs, ended, pod, sample, task_for

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors
from ansible_collections.gpuops.lifecycle.plugins.module_utils.outcome import describe
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import dcgmi_diag, job
from ansible_collections.gpuops.lifecycle.plugins.module_utils.validate import pod as runner

GOOD = sample("dcgmi", "02-pass-v4.json")
AWAY = errors.Unavailable("etcd is away", 503)
FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
FORBIDDEN = errors.Forbidden("jobs.batch is forbidden", 403, "Forbidden", request="POST /apis/batch/v1/jobs")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(job, "START_S", 0.4)
    monkeypatch.setattr(runner, "PROGRESS_S", 0.05)
    monkeypatch.setattr(runner, "KILL_AFTER_S", 0)
    monkeypatch.setattr(runner, "DELETE_S", 0.5)


def diagnose(kube, **params):
    task = task_for("dcgmi_diag", dcgmi_diag.ARGUMENT_SPEC, kube, **{
        "expected_gpus": 8, "level": 2, "fail_on_verdict": False, "timeout_s": 1, **params,
    })  # fmt: skip
    return dcgmi_diag.run(task), task


# name: what happens, cause, part of the reason
TROUBLE = {
    "unschedulable": (
        dict(pods=[pod(unschedulable="0/1 nodes: Insufficient nvidia.com/gpu")]),
        "not_started",
        "Insuff",
    ),
    "image not there": (
        dict(pods=[pod(waiting={"reason": "ImagePullBackOff", "message": "no x"})]),
        "not_started",
        "no x",
    ),
    "image name": (dict(pods=[pod(waiting={"reason": "InvalidImageName"})]), "not_started", "InvalidImageName"),
    "no such secret": (
        dict(pods=[pod(waiting={"reason": "CreateContainerConfigError", "message": "secret x"})]),
        "not_started",
        "secret x",
    ),
    "admission": (
        dict(pods=[pod("Failed", reason="UnexpectedAdmissionError", message="Allocate failed")]),
        "not_started",
        "Allocate failed",
    ),
    "no pod": (dict(events=[{"message": "exceeded quota"}]), "not_started", "exceeded quota"),
    "vanished": (dict(pods=[pod("Running"), GONE], condition=FAILED), "vanished", "vanished"),
    "never ends": (dict(pods=[pod("Running")]), "timeout", "did not end"),
    "deadline": (
        dict(condition={"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}),
        "timeout",
        "deadline",
    ),
    "time limit": (dict(pods=[ended(124)], log=""), "timeout", "within 1 s"),
    "time limit, all printed": (dict(pods=[ended(124)], log=GOOD), "timeout", "within 1 s"),
    "killed": (dict(pods=[ended(137)], log=GOOD), "killed", "killed"),
    "no program": (dict(pods=[ended(127)], log="timeout: no such file"), "not_started", "could not be started"),
    "log gone": (dict(pods=[ended()], log=errors.NotFound("pods not found", 404)), "no_log", "is gone"),
    "log away": (dict(pods=[ended()], log=AWAY), "no_log", "etcd is away"),
    "empty log": (dict(pods=[ended()], log=""), "output", "empty"),
    "cut log": (dict(pods=[ended()], log=GOOD[:3000]), "output", "cut off"),
    "API away at creation": (dict(refuse={"create": AWAY}), "api", "etcd is away"),
    "API away while waiting": (dict(refuse={"list": AWAY}), "api", "etcd is away"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_unknown_and_leaves_no_job(name):
    script, cause, words = TROUBLE[name]
    kube = Jobs(**script)
    result, task = diagnose(kube)
    assert (result["verdict"], result["cause"]) == ("unknown", cause), result
    assert words in result["reasons"][0]
    assert kube.job is None
    assert not task.changed


def test_a_good_run_passes_and_its_job_is_deleted():
    kube = Jobs(pods=[pod(), pod("Running"), ended()], log=GOOD)
    result, task = diagnose(kube)
    assert (result["verdict"], result["rc"], result["version"]) == ("pass", 0, "4.6.0")
    assert len(result["gpus"]) == 8 and {gpu["verdict"] for gpu in result["gpus"]} == {"pass"}
    assert [test["name"] for test in result["tests"]] == ["software", "memory", "pcie"]
    assert (result["started_at"], result["output"]) == ("2026-12-01T12:00:00Z", "")
    assert kube.deleted == ["job-1"]
    assert sum(request.startswith("log") for request in kube.requests) == 1


@pytest.mark.parametrize(
    ("state", "start_s", "timeout_s"),
    [
        (ended(), 60, 60),
        (pod(waiting={"reason": "InvalidImageName"}), 60, 60),
        (pod("Failed", reason="Evicted"), 60, 60),
        (pod(unschedulable="Insufficient nvidia.com/gpu"), 0.2, 60),
    ],
    ids=["ended", "lasting", "failed", "not started in time"],
)
def test_what_cannot_change_any_more_is_not_waited_for(monkeypatch, state, start_s, timeout_s):
    monkeypatch.setattr(job, "START_S", start_s)
    result, _task = diagnose(Jobs(pods=[state], log=GOOD), timeout_s=timeout_s)
    assert result["duration_s"] < 20


def test_the_log_is_asked_for_again_while_the_node_is_away():
    kube = Jobs(pods=[ended()], log=[AWAY, AWAY, "", GOOD])
    assert diagnose(kube)[0]["verdict"] == "pass"


def test_a_pod_that_only_a_fresh_list_shows_is_not_overlooked():
    """Two watches may differ: the Job is complete, its pod has not been shown yet."""
    kube = Jobs(condition={"type": "Complete", "status": "True"}, unseen=ended(), log=GOOD)
    assert diagnose(kube)[0]["verdict"] == "pass"


def test_a_fault_shown_before_the_time_limit_stays_a_fail():
    kube = Jobs(pods=[ended(124)], log=sample("dcgmi", "03-fail-memory-v4.json"))
    assert diagnose(kube)[0]["cause"] == "hardware"


def test_a_verdict_fails_the_task_with_all_that_is_known():
    kube = Jobs(pods=[ended(205)], log=sample("dcgmi", "03-fail-memory-v4.json"))
    with pytest.raises(Failed, match="gpu-node-a: fail: .*GPU 5.*58 MEMORY_MISMATCH") as caught:
        diagnose(kube, fail_on_verdict=True)
    assert caught.value.result["verdict"] == "fail"
    assert caught.value.result["output"]
    assert kube.deleted == ["job-1"]


def wanted_job(gpus=8, uid="node-uid"):
    """The Job that `diagnose` makes."""
    node = {"metadata": {**NODE["metadata"], "uid": uid}}
    params = {"level": 2, "iterations": 1, "binary": "dcgmi"}
    spec = dcgmi_diag.ARGUMENT_SPEC
    made = job.body(node, "dcgmi_diag", dcgmi_diag.command(params), gpus, 1, spec["image"]["default"], {}, {}, "run-0")
    made["metadata"].update(uid="left", resourceVersion="1")
    return made


def test_a_job_that_still_does_the_same_work_is_gone_on_with():
    kube = Jobs(pods=[ended()], log=GOOD, left=wanted_job())
    result, task = diagnose(kube)
    assert result["verdict"] == "pass"
    assert (kube.created, kube.deleted) == ([], ["left"])
    assert any("goes on with" in line for line in task.said)


def left_finished():
    left = wanted_job()
    left["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    return left


def left_dying():
    left = wanted_job()
    left["metadata"]["deletionTimestamp"] = "2026-12-01T12:00:00Z"
    return left


@pytest.mark.parametrize(
    "left",
    [left_finished(), left_dying(), wanted_job(gpus=4), wanted_job(uid="another-node-of-that-name")],
    ids=["finished", "dying", "other work", "other node"],
)
def test_any_other_job_left_is_removed_first(left):
    kube = Jobs(pods=[ended()], log=GOOD, left=left)
    assert diagnose(kube)[0]["verdict"] == "pass"
    assert kube.deleted == ["left", "job-1"]


def test_a_job_of_somebody_else_is_not_touched():
    left = copy.deepcopy(wanted_job())
    left["metadata"]["labels"] = {}
    kube = Jobs(left=left)
    with pytest.raises(Failed, match="not of this collection"):
        diagnose(kube)
    assert kube.job and not kube.deleted


def test_a_job_that_was_created_without_an_answer_is_met_again():
    kube = Jobs(pods=[ended()], log=GOOD, refuse={"create jobs": [AWAY]})
    assert diagnose(kube)[0]["verdict"] == "pass"
    assert len(kube.created) == 1


EXISTS = errors.Conflict("exists", 409, "AlreadyExists")


def test_a_job_that_went_by_itself_is_no_obstacle():
    kube = Jobs(pods=[ended()], log=GOOD, refuse={"create jobs": [EXISTS]})
    assert diagnose(kube)[0]["verdict"] == "pass"


def test_a_job_that_does_not_go_away_is_named():
    with pytest.raises(Failed, match="does not go away.*kubectl -n gpuops-system describe job dcgmi-diag-"):
        diagnose(Jobs(refuse={"create jobs": EXISTS}))


@pytest.mark.parametrize("verb", ["create jobs", "list pods", "log"])
def test_a_missing_permission_fails_and_names_what_to_bind(verb):
    kube = Jobs(pods=[ended()], log=GOOD, refuse={verb: FORBIDDEN})
    with pytest.raises(Failed) as caught:
        diagnose(kube)
    assert "POST /apis/batch/v1/jobs" in caught.value.message
    assert "Role gpuops-run in gpuops-system" in caught.value.message
    assert kube.job is None


def test_a_job_that_cannot_be_deleted_does_not_cost_the_result():
    kube = Jobs(pods=[ended()], log=GOOD, refuse={"delete": FORBIDDEN})
    result, task = diagnose(kube)
    assert result["verdict"] == "pass"
    assert any("could not be deleted" in line for line in task.said)


def test_an_unknown_node_is_named_before_anything_runs():
    kube = Jobs()
    for check_mode in (False, True):
        task = task_for("dcgmi_diag", dcgmi_diag.ARGUMENT_SPEC, kube, check_mode, node="gpu-node-z", expected_gpus=8)
        with pytest.raises(Failed) as caught:
            dcgmi_diag.run(task)
        assert "no node gpu-node-z" in describe(task, caught.value)
    assert not kube.created


def test_progress_says_what_is_waited_for():
    _result, task = diagnose(Jobs(pods=[pod(unschedulable="Insufficient nvidia.com/gpu")]))
    assert any("waits for its pod: Insufficient nvidia.com/gpu" in line for line in task.said)
    _result, task = diagnose(Jobs(pods=[pod("Running")]))
    assert any("runs, at most 1 s" in line for line in task.said)


def test_the_job_is_pinned_counted_and_tolerated():
    made = wanted_job()
    spec = made["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-node-a"]}]}]
    assert "nodeName" not in spec  # the scheduler counts the GPUs
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert spec["containers"][0]["command"][:3] == ["timeout", "--kill-after=30", "1"]
    assert {"operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]
    assert (made["spec"]["backoffLimit"], spec["restartPolicy"]) == (0, "Never")
    assert spec["automountServiceAccountToken"] is False
    assert made["metadata"]["annotations"]["lifecycle.gpuops.io/run"] == "run-0"
    assert len(job.name_of("n" * 253, "all_reduce_perf")) <= 63


@pytest.mark.parametrize("tool", ["dcgmi_diag", "all_reduce_perf"])
def test_each_tool_gets_what_it_needs_and_no_more(tool):
    params = {"image_pull_secret": "pull", "runtime_class": "nvidia"}
    for given in ({}, params):
        spec = job.body(NODE, tool, ["x"], 8, 60, "image", given, {"NCCL_ALGO": "Ring"})["spec"]["template"]["spec"]
        assert spec.get("imagePullSecrets") == ([{"name": "pull"}] if given else None)
        assert spec.get("runtimeClassName") == given.get("runtime_class")
        (container,) = spec["containers"]
        assert ("securityContext" in container) == (tool == "dcgmi_diag")
        assert ("volumes" in spec) == (tool == "all_reduce_perf")
        assert container["env"] == [{"name": "NCCL_ALGO", "value": "Ring"}]
