# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded answers of a real API server, as errors that keep its cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import errors

FIXTURES = Path(__file__).parents[2] / "fixtures" / "k8s"


def error_of(name):
    recorded = json.loads((FIXTURES / f"{name}.json").read_text())
    recorded = recorded.get("answer", recorded)
    body = recorded["body"]
    data = (json.dumps(body) if isinstance(body, dict) else body).encode()
    return errors.from_response(recorded["status"], data, recorded.get("headers") or {}, "GET /x")


@pytest.mark.parametrize(
    ("name", "kind", "reason", "cause", "retry_after_s"),
    [
        ("evict-budget", errors.TooManyRequests, "TooManyRequests", "DisruptionBudget", None),
        ("evict-two-budgets", errors.Unavailable, "", None, None),
        ("evict-not-found", errors.NotFound, "NotFound", None, None),
        ("evict-wrong-uid", errors.Conflict, "Conflict", None, None),
        ("node-merge-patch-conflict", errors.Conflict, "Conflict", None, None),
        ("lease-create-exists", errors.Conflict, "AlreadyExists", None, None),
        ("forbidden-evict", errors.Forbidden, "Forbidden", None, None),
        ("forbidden-list-pods", errors.Forbidden, "Forbidden", None, None),
        ("unauthorized", errors.Unauthorized, "Unauthorized", None, None),
        ("node-json-patch-test-failed", errors.Invalid, "Invalid", None, None),
        ("crd-immutable", errors.Invalid, "Invalid", None, None),
        ("crd-not-installed", errors.NotFound, "", None, None),
        ("list-rv-future", errors.Unavailable, "Timeout", "ResourceVersionTooLarge", 1),
        ("unknown-path", errors.NotFound, "", None, None),
    ],
)
def test_recorded_answers(name, kind, reason, cause, retry_after_s):
    error = error_of(name)
    assert type(error) is kind
    assert error.reason in (reason, "NotFound")
    assert cause is None or error.has_cause(cause)
    assert error.retry_after_s == retry_after_s


def test_the_sentence_names_the_request_and_the_cause():
    text = str(error_of("evict-budget"))
    assert "needs 2 healthy pods and has 2 currently" in text
    assert "GET /x: 429" in text


def test_an_answer_that_is_no_status_is_kept_as_text():
    error = errors.from_response(502, b"<html>bad gateway</html>", {}, "GET /x")
    assert isinstance(error, errors.Unavailable)
    assert "bad gateway" in str(error)
