# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks that a tool working on nodes, pods and budgets can trip over, as tables; and schemas of custom resources."""

from __future__ import annotations

import json
import re

from simulator.errors import invalid
from simulator.resources import schema_of

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
RULES_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def check_name(resource, name):
    if not NAME.fullmatch(name) or len(name) > 253:
        raise invalid(resource, name, [("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {NAME_RULE}')])


def check(resource, obj, old=None):
    """Raise the 422 for an object about to be stored (`old`: the version before, None on create)."""
    causes = [*_metadata(obj, old), *_BY_PLURAL.get(resource.plural, lambda _o: [])(obj)]
    if resource.crd:
        schema = schema_of(resource)
        found = list(_schema(schema, obj, old, ""))
        if any(reason != "FieldValueInvalid" for reason, _field, _text in found) and any(_rules(schema, "")):
            found.append(("FieldValueInvalid", "<nil>", f"Invalid value: null: {RULES_NOT_CHECKED}"))
        causes += found
    if causes:
        raise invalid(resource, obj["metadata"]["name"], causes)


def _metadata(obj, old):
    metadata = obj["metadata"]
    for value in (metadata.get("labels") or {}).values():
        if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
            yield "FieldValueInvalid", "metadata.labels", f'Invalid value: "{value}": {LABEL_RULE}'
    if old and old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or []
        new = [f for f in metadata.get("finalizers") or [] if f not in before]
        if new:
            listed = ", ".join(f'"{x}"' for x in new)
            yield (
                "FieldValueForbidden",
                "metadata.finalizers",
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}",
            )


def _node(node):
    spec = node.get("spec") or {}
    seen = set()
    for i, taint in enumerate(spec.get("taints") or []):
        if taint.get("effect") not in EFFECTS:
            yield (
                "FieldValueNotSupported",
                f"metadata.taints[{i}].effect",
                f'Unsupported value: "{taint.get("effect")}": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
            )
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            shown = {"Key": taint.get("key"), "Value": taint.get("value", ""), "Effect": taint.get("effect")}
            shown["TimeAdded"] = taint.get("timeAdded")
            yield (
                "FieldValueDuplicate",
                f"metadata.taints[{i}]",
                f"Duplicate value: {json.dumps(shown, separators=(',', ':'))}: taints must be unique by key and effect pair",
            )
        seen.add(identity)


def _budget(pdb):
    spec = pdb["spec"]
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        shown = {"MinAvailable": spec["minAvailable"], "Selector": spec.get("selector")}
        shown["MaxUnavailable"] = spec["maxUnavailable"]
        shown["UnhealthyPodEvictionPolicy"] = spec.get("unhealthyPodEvictionPolicy")
        value = json.dumps(shown, separators=(",", ":"))
        yield "FieldValueInvalid", "spec", f"Invalid value: {value}: minAvailable and maxUnavailable cannot be both set"


def _lease(lease):
    spec = lease.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield "FieldValueInvalid", "spec.leaseDurationSeconds", f"Invalid value: {seconds}: must be greater than 0"


def _custom_definition(crd):
    for version in crd["spec"].get("versions") or []:
        for path, rule in _rules((version.get("schema") or {}).get("openAPIV3Schema") or {}, ""):
            if rule != "self == oldSelf":
                text = f"Invalid value: the simulated cluster can only check the rule self == oldSelf, not: {rule}"
                yield "FieldValueInvalid", f"spec.versions.schema{path}", text


def _rules(schema, path):
    for rule in schema.get("x-kubernetes-validations") or []:
        yield path, rule["rule"].strip()
    for name, child in (schema.get("properties") or {}).items():
        yield from _rules(child, f"{path}.{name}")


def _pod(pod, path="spec"):
    containers = (pod.get("spec") or {}).get("containers")
    if not containers:
        yield "FieldValueRequired", f"{path}.containers", "Required value"
    for i, container in enumerate(containers or []):
        for field in ("name", "image"):
            if not container.get(field):
                yield "FieldValueRequired", f"{path}.containers[{i}].{field}", "Required value"


def _template(obj):
    return _pod((obj.get("spec") or {}).get("template") or {}, "spec.template.spec")


_BY_PLURAL = {
    "nodes": _node,
    "pods": _pod,
    **dict.fromkeys(("deployments", "replicasets", "statefulsets", "daemonsets", "jobs"), _template),
    "poddisruptionbudgets": _budget,
    "leases": _lease,
    "customresourcedefinitions": _custom_definition,
}
_TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}


def _schema(schema, value, old, path):
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        kind = None
    wrong = kind and (
        not isinstance(value, _TYPES[kind]) or (kind in ("integer", "number") and isinstance(value, bool))
    )
    if wrong:
        yield "FieldValueTypeInvalid", path, f'Invalid value: "{type(value).__name__}": must be of type {kind}'
        return
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{word}"' for word in schema["enum"])
        yield "FieldValueNotSupported", path, f'Unsupported value: "{value}": supported values: {supported}'
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        yield "FieldValueTooLong", path, f"Too long: may not be more than {schema['maxLength']} bytes"
    if isinstance(value, dict):
        for name in schema.get("required") or []:
            if name not in value:
                yield "FieldValueRequired", f"{path}.{name}".lstrip("."), "Required value"
        for name, child in (schema.get("properties") or {}).items():
            if name in value:
                before = old.get(name) if isinstance(old, dict) else None
                yield from _schema(child, value[name], before, f"{path}.{name}".lstrip("."))
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            yield from _schema(schema["items"], item, None, f"{path}[{i}]")
    for rule in schema.get("x-kubernetes-validations") or []:
        if rule["rule"].strip() == "self == oldSelf" and old is not None and value != old:
            yield "FieldValueInvalid", path, f"Invalid value: {rule.get('message', 'failed rule: self == oldSelf')}"


def prune(schema, value):
    """(value without fields the schema does not know, [their paths])."""
    dropped = []

    def walk(schema, value, path):
        if isinstance(value, list) and "items" in schema:
            return [walk(schema["items"], item, f"{path}[{i}]") for i, item in enumerate(value)]
        if not isinstance(value, dict) or not schema:
            return value
        known, kept = schema.get("properties") or {}, {}
        open_map = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
        for name, item in value.items():
            where = f"{path}.{name}".lstrip(".")
            if name in known:
                kept[name] = walk(known[name], item, where)
            elif open_map or (not path and name in ("apiVersion", "kind", "metadata")):
                kept[name] = item
            else:
                dropped.append(where)
        return kept

    return walk(schema, value, ""), dropped
