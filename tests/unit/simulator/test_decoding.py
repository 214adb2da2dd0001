# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the decoder says about bodies: unknown fields, wrong types, broken JSON, protobuf."""

from __future__ import annotations

import pytest

from simulator.api import decoding, protobuf
from simulator.errors import ApiError
from simulator.resources import built_in, from_crd

KINDS = {resource.kind: resource for resource in built_in()}


@pytest.mark.parametrize(
    ("kind", "body", "unknown"),
    [
        ("Node", {"spec": {"unschedulable": True}}, []),
        ("Node", {"spec": {"unschedulabel": True}}, ["spec.unschedulabel"]),
        ("Pod", {"spec": {"containers": [{"name": "c", "imagee": "x"}]}}, ["spec.containers[0].imagee"]),
        ("Pod", {"metadata": {"labels": {"any": "thing"}}}, []),
        ("Deployment", {"spec": {"template": {"spec": {"nodeSelectr": {}}}}}, ["spec.template.spec.nodeSelectr"]),
        ("PodDisruptionBudget", {"spec": {"maxUnavailabel": 1}}, ["spec.maxUnavailabel"]),
        ("Event", {"anything": "goes"}, []),
    ],
)
def test_unknown_fields_are_found_and_dropped(kind, body, unknown):
    kept, found = decoding.decode(KINDS[kind], body)
    assert found == unknown
    assert (kept == body) == (not unknown)


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        (
            "Node",
            {"spec": {"unschedulable": "yes"}},
            "string into Go struct field NodeSpec.spec.unschedulable of type bool",
        ),
        ("Node", {"spec": {"taints": {}}}, "object into Go struct field NodeSpec.spec.taints of type []v1.Taint"),
        (
            "Lease",
            {"spec": {"leaseDurationSeconds": 1.5}},
            "number into Go struct field LeaseSpec.spec.leaseDurationSeconds",
        ),
        (
            "Lease",
            {"spec": {"leaseDurationSeconds": True}},
            "bool into Go struct field LeaseSpec.spec.leaseDurationSeconds",
        ),
        ("Lease", {"spec": {"renewTime": "2026-01-01 00:00"}}, 'cannot parse " 00:00" as "T"'),
        ("Lease", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}, 'cannot parse "Z" as ".000000"'),
        ("Pod", {"spec": {"nodeSelector": {"a": 1}}}, "of type string"),
    ],
)
def test_wrong_types_are_refused_in_go_words(kind, body, says):
    with pytest.raises(decoding.Undecodable) as refused:
        decoding.decode(KINDS[kind], body)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ({"spec": {"taints": None}}, {"spec": {}}),
        ({"status": {"capacity": {"cpu": 4}}}, {"status": {"capacity": {"cpu": "4"}}}),
    ],
    ids=["null is absent", "a quantity is text"],
)
def test_values_are_brought_to_their_stored_form(body, kept):
    assert decoding.decode(KINDS["Node"], body) == (kept, [])


@pytest.mark.parametrize(
    ("patched", "code", "begins"),
    [
        (True, 422, ' "" is invalid: patch: Invalid value:'),
        (False, 400, 'Node in version "v1" cannot be handled as a Node:'),
    ],
)
def test_strict_refuses_by_verb(patched, code, begins):
    with pytest.raises(ApiError) as refused:
        decoding.checked(KINDS["Node"], {"spec": {"x": 1}}, "Strict", patched)
    assert refused.value.code == code
    assert refused.value.body["message"].startswith(begins)
    assert refused.value.body["message"].endswith('strict decoding error: unknown field "spec.x"')


@pytest.mark.parametrize(("mode", "warnings"), [("Warn", ['unknown field "spec.x"']), ("Ignore", [])])
def test_other_modes_drop(mode, warnings):
    assert decoding.checked(KINDS["Node"], {"spec": {"x": 1}}, mode) == ({"spec": {}}, warnings)


def test_custom_resources_are_pruned_by_their_schema():
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}},
            },
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    names = {"plural": "foos", "kind": "Foo"}
    version = {"name": "v1", "storage": True, "schema": {"openAPIV3Schema": schema}}
    foo = from_crd({"spec": {"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]}})
    body = {"metadata": {"name": "f"}, "spec": {"a": {"k": "v"}, "b": 1}, "open": {"x": 1}, "other": 1}
    kept, dropped = decoding.decode(foo, body)
    assert kept == {"metadata": {"name": "f"}, "spec": {"a": {"k": "v"}}, "open": {"x": 1}}
    assert dropped == ["spec.b", "other"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"{not json", "invalid character 'n' looking for beginning of object key string"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"{", "unexpected end of JSON input"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"{}", ""),
    ],
)
def test_json_errors_in_go_words(raw, says):
    assert decoding.json_error(raw) == says


def field(number, value):
    """One protobuf field, short ones only."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def envelope(api_version, kind, message):
    meta = field(1, api_version) + field(2, kind)
    return protobuf.MAGIC + field(1, meta) + field(2, message)


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (
            envelope(
                b"v1",
                b"ConfigMap",
                field(1, field(1, b"c") + field(3, b"")) + field(2, field(1, b"k") + field(2, b"v")),
            ),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}},
        ),
        (
            envelope(b"v1", b"DeleteOptions", field(1, 0) + field(5, b"All")),
            {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "dryRun": ["All"]},
        ),
        (
            envelope(b"policy/v1", b"PodDisruptionBudget", field(2, field(1, field(1, 1) + field(3, b"50%")))),
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": "50%"}},
        ),
        (
            envelope(b"v1", b"Node", field(1, field(8, b"")) + field(2, field(4, 1))),
            {"apiVersion": "v1", "kind": "Node", "metadata": {}, "spec": {"unschedulable": True}},
        ),
        (
            envelope(b"v1", b"Pod", field(2, field(1, field(1, b"v") + field(2, field(2, b""))))),
            {"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        ),
    ],
    ids=["map", "zero and list", "int or string", "zero time", "inline message"],
)
def test_protobuf(raw, body):
    assert protobuf.decode(raw) == body


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"{}", "does not begin with"),
        (envelope(b"v1", b"Nonsense", b""), "no message is known for v1 Nonsense"),
        (envelope(b"v1", b"ConfigMap", b"")[:-3], "ends inside"),
    ],
)
def test_broken_protobuf_is_refused(raw, says):
    with pytest.raises(protobuf.Malformed, match=says):
        protobuf.decode(raw)
