# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each refusal of the eviction API means. The answers of a real API server (1.36) are tests/fixtures/k8s/evict-*."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import refusals
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "k8s"

RECORDED = [
    ("evict-budget", "budget", None),
    ("evict-unready-ifhealthybudget", "budget", None),
    ("evict-stale-generation", "transient", 10),
    ("evict-two-budgets", "misconfigured", None),
    ("evict-not-found", "gone", None),
    ("evict-no-namespace", "transient", None),
    ("evict-wrong-uid", "gone", None),
    ("evict-wrong-uid-spends-budget", "gone", None),
    ("evict-body-name-mismatch", "fatal", None),
    ("forbidden-evict", "fatal", None),
    ("unauthorized", "fatal", None),
]


@pytest.mark.parametrize(("name", "kind", "wait"), RECORDED, ids=[c[0] for c in RECORDED])
def test_recorded_answers(name, kind, wait):
    recorded = json.loads((FIXTURES / f"{name}.json").read_text())
    body = json.dumps(recorded["body"]).encode()
    error = errors.from_response(recorded["status"], body, recorded["headers"], "POST eviction")
    found = refusals.of(error)
    assert (found.kind, found.retry_after_s) == (kind, wait)


def answer(status, message="", reason="", causes=(), kind=None, headers=None):
    details = {"causes": [{"reason": r, "message": m} for r, m in causes], **({"kind": kind} if kind else {})}
    body = {"kind": "Status", "message": message, "reason": reason, "details": details}
    return errors.from_response(status, json.dumps(body).encode(), headers or {}, "POST eviction")


DENIED = 'admission webhook "drain-cleaner.strimzi.io" denied the request: the pod will be rolled by the operator'
CASES = [
    ("client throttled", answer(429, "slow down", headers={"Retry-After": "2"}), "throttle", False),
    ("T47 denied by a webhook", answer(403, DENIED, "Forbidden", kind="pods"), "webhook", False),
    ("T47 denied by a webhook with 429", answer(429, DENIED), "webhook", False),
    ("denied by a webhook with 400", answer(400, DENIED, "BadRequest"), "webhook", False),
    ("T49 webhook does not answer", answer(500, 'failed calling webhook "x.example": EOF'), "webhook", True),
    ("500", answer(500, "etcdserver: request timed out"), "transient", True),
    ("503", answer(503, "", headers={"Retry-After": "1"}), "transient", True),
    ("504", answer(504, "timeout"), "transient", True),
    ("no answer", errors.Unreachable("EOF"), "transient", True),
    (
        "namespace terminating",
        answer(403, "", "Forbidden", [("NamespaceTerminating", "is being terminated")]),
        "transient",
        False,
    ),
    (
        "budget out of order",
        answer(403, "pdb disruption budget is negative", kind="poddisruptionbudget"),
        "misconfigured",
        False,
    ),
    ("budget written by another at once", answer(409, "try again", kind="poddisruptionbudgets"), "transient", False),
    ("eviction is not served", errors.from_response(404, b"404 page not found", {}, "POST"), "fatal", False),
    ("method not allowed", answer(405), "fatal", False),
    ("unprocessable", answer(422), "fatal", False),
]


@pytest.mark.parametrize(("error", "kind", "unanswered"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_kinds(error, kind, unanswered):
    found = refusals.of(error)
    assert (found.kind, found.unanswered) == (kind, unanswered)


def test_webhook_is_named():
    assert refusals.of(answer(403, DENIED)).webhook == "drain-cleaner.strimzi.io"
