# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may do what, errors on demand, and the count of requests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from simulator.api.access import InjectedError, User
from simulator.api.requests import RequestLog
from simulator.clock import Clock

RULES = [(("get", "list"), ("*",)), (("create",), ("pods/eviction",)), (("*",), ("leases",))]


@pytest.mark.parametrize(
    ("rules", "verb", "resource", "allowed"),
    [
        (None, "delete", "nodes", True),
        ([], "get", "nodes", False),
        (RULES, "get", "nodes", True),
        (RULES, "patch", "nodes", False),
        (RULES, "create", "pods/eviction", True),
        (RULES, "create", "pods", False),
        (RULES, "delete", "leases", True),
    ],
)
def test_rules(rules, verb, resource, allowed):
    assert User("someone", rules).may(verb, resource) == allowed


@pytest.mark.parametrize(
    ("error", "asked", "taken"),
    [
        (InjectedError("patch", "nodes", 500), [("patch", "nodes")], [True]),
        (InjectedError("patch", "nodes", 500), [("get", "nodes"), ("patch", "pods")], [False, False]),
        (InjectedError("*", "pods/eviction", 429, times=2), [("create", "pods/eviction")] * 3, [True, True, False]),
        (InjectedError("get", "*", 503), [("list", "pods"), ("get", "pods")], [False, True]),
    ],
)
def test_injected_errors_hit_fitting_requests_so_many_times(error, asked, taken):
    assert [error.takes(*words) for words in asked] == taken


def request(method, path, **query):
    return SimpleNamespace(method=method, path=path, query=query)


@pytest.mark.parametrize(
    ("asked", "mutating"),
    [
        (request("GET", "/api/v1/nodes"), 0),
        (request("PATCH", "/api/v1/nodes/n"), 1),
        (request("POST", "/api/v1/namespaces/x/pods/p/eviction"), 1),
        (request("PATCH", "/api/v1/nodes/n", dryRun="All"), 0),
        (request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), 0),
    ],
)
def test_requests_are_counted_by_agent(asked, mutating):
    log = RequestLog(Clock())
    log.count(asked, "gpuops-lifecycle/1.0", 200)
    assert log.summary()["by_agent"] == {"gpuops-lifecycle/1.0": {"total": 1, "mutating": mutating}}
    assert len(log.writes) == mutating


def test_health_checks_are_not_counted():
    log = RequestLog(Clock())
    log.count(request("GET", "/readyz"), "probe", 200)
    assert log.summary()["total"] == 0
