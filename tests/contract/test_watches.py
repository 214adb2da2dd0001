# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watches: what a selection sees, initial events, too old versions, and the end by timeoutSeconds."""

from __future__ import annotations

import os
import time

import pytest

from tests.contract import recorded


@pytest.fixture
def maps(namespace):
    return f"/api/v1/namespaces/{namespace}/configmaps"


def version(api, path):
    return api.get(path).body["metadata"]["resourceVersion"]


def events(answer):
    assert answer.status == 200, answer.body
    return [(event["type"], event["object"]["metadata"].get("name")) for event in answer.body]


def test_an_object_that_leaves_the_selection_is_deleted_as_it_was(api, maps):
    api.post(maps, {"metadata": {"name": "w", "labels": {"on": "1"}}})
    since = version(api, maps)
    api.merge(f"{maps}/w", {"metadata": {"labels": {"on": None}}})
    api.merge(f"{maps}/w", {"metadata": {"labels": {"on": "1"}}})
    api.delete(f"{maps}/w")
    answer = api.get(f"{maps}?watch=1&timeoutSeconds=1&labelSelector=on%3D1&resourceVersion={since}")
    assert events(answer) == [("DELETED", "w"), ("ADDED", "w"), ("DELETED", "w")]
    left = answer.body[0]["object"]["metadata"]
    assert left["labels"] == {"on": "1"}
    assert int(left["resourceVersion"]) > int(since)


def test_a_watch_ends_when_it_was_told_to(api, maps):
    started = time.monotonic()
    api.get(f"{maps}?watch=1&timeoutSeconds=1&resourceVersion={version(api, maps)}")
    assert 0.8 < time.monotonic() - started < 4


def test_initial_events_end_with_a_bookmark(api, namespace):
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts?watch=1&timeoutSeconds=1&allowWatchBookmarks=true"
    answer = api.get(f"{path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    assert events(answer)[:2] == [("ADDED", "default"), ("BOOKMARK", None)]
    want = recorded.load("watch-initial-events")["events"][-1]["object"]["metadata"]["annotations"]
    assert answer.body[1]["object"]["metadata"]["annotations"] == want


@pytest.mark.skipif("KUBECONFIG_CONTRACT" in os.environ, reason="a control plane that has just started knows version 1")
def test_a_version_that_is_gone_ends_the_stream_with_410(api, maps):
    answer = api.get(f"{maps}?watch=1&timeoutSeconds=1&resourceVersion=1")
    assert (answer.status, [event["type"] for event in answer.body]) == (200, ["ERROR"])
    status = answer.body[0]["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")


def test_changes_while_watching_arrive_in_order(api, maps):
    since = version(api, maps)
    for name in ("a", "b"):
        api.post(maps, {"metadata": {"name": name}})
    api.delete(f"{maps}/a")
    answer = api.get(f"{maps}?watch=1&timeoutSeconds=1&resourceVersion={since}")
    assert events(answer) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in answer.body]
    assert versions == sorted(versions)
