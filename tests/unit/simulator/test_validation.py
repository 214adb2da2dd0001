# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks before an object is stored."""

from __future__ import annotations

import pytest

from simulator.api import validation
from simulator.errors import ApiError
from simulator.resources import built_in, from_crd

KINDS = {resource.kind: resource for resource in built_in()}


def causes(resource, obj, old=None):
    obj = {"metadata": {"name": "x"}, **obj}
    try:
        validation.check(resource, obj, old)
    except ApiError as refused:
        assert refused.code == 422
        return [(cause["reason"], cause["field"]) for cause in refused.body["details"]["causes"]]
    return []


TAINT, NEVER = {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "Never"}


@pytest.mark.parametrize(
    ("kind", "obj", "found"),
    [
        ("Node", {"spec": {"taints": [TAINT, {**TAINT, "effect": "NoExecute"}]}}, []),
        (
            "Node",
            {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
            [("FieldValueNotSupported", "metadata.taints[0].effect")],
        ),
        ("Node", {"spec": {"taints": [TAINT, TAINT]}}, [("FieldValueDuplicate", "metadata.taints[1]")]),
        ("Node", {"metadata": {"name": "x", "labels": {"a": "no spaces"}}}, [("FieldValueInvalid", "metadata.labels")]),
        ("Node", {"metadata": {"name": "x", "labels": {"a": "x" * 64}}}, [("FieldValueInvalid", "metadata.labels")]),
        ("Node", {"metadata": {"name": "x", "labels": {"a": ""}}}, []),
        ("PodDisruptionBudget", {"spec": {"minAvailable": 1}}, []),
        ("PodDisruptionBudget", {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, [("FieldValueInvalid", "spec")]),
        ("Lease", {"spec": {"leaseDurationSeconds": 1}}, []),
        ("Lease", {"spec": {"leaseDurationSeconds": 0}}, [("FieldValueInvalid", "spec.leaseDurationSeconds")]),
    ],
)
def test_built_in_kinds(kind, obj, found):
    assert causes(KINDS[kind], obj) == found


@pytest.mark.parametrize("name", ["Bad", "a_b", "-a", "a..b", "", "x" * 254])
def test_names(name):
    with pytest.raises(ApiError):
        validation.check_name(KINDS["ConfigMap"], name)
    validation.check_name(KINDS["ConfigMap"], "good-1.name")


def test_a_dying_object_gets_no_new_finalizers():
    old = {"metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}}
    new = {"metadata": {"name": "x", "finalizers": ["a/b", "c/d"]}}
    assert causes(KINDS["ConfigMap"], new, old) == [("FieldValueForbidden", "metadata.finalizers")]
    assert causes(KINDS["ConfigMap"], {"metadata": {"name": "x", "finalizers": []}}, old) == []


SPEC = {
    "type": "object",
    "required": ["kind"],
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a record is immutable"}],
    "properties": {
        "kind": {"type": "string", "enum": ["Qualification"]},
        "count": {"type": "integer"},
        "budget": {"x-kubernetes-int-or-string": True},
        "tests": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}


def crd(spec=SPEC):
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    version = {"name": "v1", "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "records", "kind": "Record"}
    return {"spec": {"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]}}


NOT_CHECKED = ("FieldValueInvalid", "<nil>")


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"kind": "Qualification", "budget": "10%"}, []),
        ({"kind": "Qualification", "budget": 1}, []),
        ({}, [("FieldValueRequired", "spec.kind"), NOT_CHECKED]),
        ({"kind": "Other"}, [("FieldValueNotSupported", "spec.kind"), NOT_CHECKED]),
        ({"kind": "Qualification", "count": "1"}, [("FieldValueTypeInvalid", "spec.count"), NOT_CHECKED]),
        ({"kind": "Qualification", "count": True}, [("FieldValueTypeInvalid", "spec.count"), NOT_CHECKED]),
        (
            {"kind": "Qualification", "tests": [{}, {"name": 1}]},
            [("FieldValueTypeInvalid", "spec.tests[1].name"), NOT_CHECKED],
        ),
    ],
)
def test_schemas_of_custom_resources(spec, found):
    assert causes(from_crd(crd()), {"spec": spec}) == found


def test_self_is_old_self():
    record = from_crd(crd())
    old = {"metadata": {"name": "x"}, "spec": {"kind": "Qualification", "count": 1}}
    assert causes(record, {"spec": {"kind": "Qualification", "count": 2}}, old) == [("FieldValueInvalid", "spec")]
    assert causes(record, {"spec": old["spec"], "status": {"a": 1}}, old) == []


def test_other_rules_are_refused_at_the_definition():
    """A rule that is never evaluated would be a check that always passes."""
    spec = {"type": "object", "x-kubernetes-validations": [{"rule": "self.count > 0"}]}
    assert causes(KINDS["CustomResourceDefinition"], crd(spec)) == [("FieldValueInvalid", "spec.versions.schema.spec")]
    assert causes(KINDS["CustomResourceDefinition"], crd()) == []
