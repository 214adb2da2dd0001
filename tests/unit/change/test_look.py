# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the operator said, and which of a node's pods count."""

from __future__ import annotations

import pytest
from upgrading import NEW, OLD, Fleet

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import look

BEFORE, READY, LATER = (f"2026-12-01T10:0{minute}:00Z" for minute in (0, 1, 2))
FAILED = "Successfully updated node state label to upgrade-failed"


def event(message, at, kind="Normal"):
    return {"message": message, "lastTimestamp": at, "type": kind}


@pytest.mark.parametrize(
    ("events", "gave_up"),
    [
        ([], False),
        ([event(FAILED, LATER)], True),
        ([event(FAILED, READY)], True),
        ([event(FAILED, BEFORE)], False),
        ([event(FAILED, None)], True),
        ([event("Successfully updated node state label to upgrade-done", LATER)], False),
    ],
)
def test_a_failure_after_the_driver_was_ready_is_one_of_its_validation(events, gave_up):
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": READY}
    assert look.gave_up(events, {"metadata": {}, "status": {"conditions": [ready]}}) is gave_up


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([], ""),
        ([event("all well", LATER)], ""),
        ([event("long ago", BEFORE, "Warning")], ""),
        ([event("no time", None, "Warning")], ""),
        ([event("later\n", LATER, "Warning"), event("now", READY, "Warning")], "later"),
    ],
)
def test_the_last_warning_since_it_began(events, says):
    assert look.last_warning(events, READY) == says


def seen(fleet):
    pods = list(fleet.list("/api/v1/pods", fieldSelector="spec.nodeName=a"))
    revisions = fleet.list("/apis/apps/v1/controllerrevisions")
    return look.seen_of(fleet.node("a"), pods, revisions, fleet.policy, NEW, "gpuops")


def test_a_settled_node():
    fleet = Fleet()
    view = seen(fleet)
    assert (view.policy_version, view.label_version, view.state) == (OLD, OLD, "upgrade-done")
    assert (view.pod, view.pod_in_sync, view.pod_ready, view.validator, view.validated) == (
        "driver-a",
        True,
        True,
        "validator-a",
        True,
    )
    assert (view.cordoned, view.held, view.armed, view.gpu_pods) == (False, False, False, ())
    fleet.hold("a")
    assert (seen(fleet).cordoned, seen(fleet).held) == (True, True)


def test_a_driver_pod_that_goes_is_not_taken_for_its_successor():
    fleet = Fleet()
    old = fleet.find("pods", "driver-a")
    fleet.edit("pods", "driver-a", lambda o: o["metadata"].update(deletionTimestamp=LATER))
    assert seen(fleet).pod_ready is False
    metadata = {**old["metadata"], "uid": "new", "name": "driver-new", "creationTimestamp": LATER}
    fleet._add("pods", {**old, "metadata": metadata})
    assert (seen(fleet).pod, seen(fleet).pod_ready) == ("driver-new", True)
    assert seen(fleet).validated is True


def test_a_validator_from_before_the_driver_proves_nothing():
    fleet = Fleet()
    fleet.make_ready("a", "driver")
    assert (seen(fleet).pod_ready, seen(fleet).validated) == (True, False)


@pytest.mark.parametrize(("kind", "field"), [("driver", "pod"), ("validator", "validator")])
def test_a_pod_that_is_not_there(kind, field):
    fleet = Fleet()
    fleet._remove("pods", fleet.find("pods", f"{kind}-a"))
    assert getattr(seen(fleet), field) == ""
    assert seen(fleet).validated is False
