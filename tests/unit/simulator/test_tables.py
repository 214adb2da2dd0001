# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables as kubectl shows them."""

from __future__ import annotations

import datetime

import pytest

from simulator.api import tables
from simulator.resources import Resource, built_in

NOW = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (10799, "179m"), (10800, "3h"),
        (11100, "3h5m"), (8 * 3600, "8h"), (47 * 3600, "47h"), (48 * 3600, "2d"), (100 * 86400, "100d"),
    ],
)  # fmt: skip
def test_durations(seconds, shown):
    then = (NOW - datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert tables.duration_since(then, NOW) == shown


def state(**state):
    return {"containerStatuses": [{"state": state}]}


@pytest.mark.parametrize(
    ("metadata", "status", "shown"),
    [
        ({}, {"phase": "Pending"}, "Pending"),
        ({}, {"phase": "Running", **state(running={})}, "Running"),
        ({}, {"phase": "Pending", **state(waiting={"reason": "PodInitializing"})}, "PodInitializing"),
        ({}, {"phase": "Running", **state(waiting={"reason": "CrashLoopBackOff"})}, "CrashLoopBackOff"),
        ({}, {"phase": "Succeeded", **state(terminated={"exitCode": 0})}, "Completed"),
        ({}, {"phase": "Failed", **state(terminated={"exitCode": 3})}, "Error"),
        ({}, {"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"phase": "Running"}, "Terminating"),
    ],
)
def test_pod_status(metadata, status, shown):
    assert tables.pod_status({"metadata": metadata, "status": status}) == shown


def test_printer_columns_of_custom_resources():
    columns = [
        {"name": "Verdict", "type": "string", "jsonPath": ".spec.verdict"},
        {
            "name": "Zone",
            "type": "string",
            "jsonPath": ".metadata.labels.topology\\.kubernetes\\.io/zone",
            "priority": 1,
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    resource = Resource("x.io", "v1", "records", "Record", crd={}, columns=columns)
    resource.crd = {"spec": {}}
    labels = {"topology.kubernetes.io/zone": "z"}
    record = {"metadata": {"name": "r", "labels": labels}, "spec": {"verdict": "pass"}}
    table = tables.table(resource, [record], {})
    assert [(c["name"], c["priority"]) for c in table["columnDefinitions"]] == [
        ("Name", 0), ("Verdict", 0), ("Zone", 1), ("Age", 0),
    ]  # fmt: skip
    assert table["rows"][0]["cells"] == ["r", "pass", "z", "<unknown>"]


def test_numbers_are_numbers():
    budgets = next(resource for resource in built_in() if resource.plural == "poddisruptionbudgets")
    pdb = {"metadata": {"name": "b"}, "spec": {"minAvailable": 2}, "status": {"disruptionsAllowed": 1}}
    table = tables.table(budgets, [pdb], {})
    assert table["columnDefinitions"][3]["type"] == "integer"
    assert table["rows"][0]["cells"][:4] == ["b", "2", "N/A", 1]
