# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Label and field selectors: text of a query, or the object form. Each gives a function from object to bool."""

from __future__ import annotations

import re

from simulator.errors import bad_request

FIELDS = {
    "pods": {
        "spec.nodeName", "status.phase", "spec.schedulerName", "spec.restartPolicy", "spec.serviceAccountName",
        "status.podIP", "status.nominatedNodeName", "spec.hostNetwork",
    },
    "nodes": {"spec.unschedulable"},
    "events": {
        "involvedObject.name", "involvedObject.kind", "involvedObject.namespace", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.fieldPath", "involvedObject.resourceVersion", "reason", "type",
        "reportingComponent", "source",
    },
    "secrets": {"type"},
    "namespaces": {"status.phase"},
    "jobs": {"status.successful"},
    "replicasets": {"status.replicas"},
}  # fmt: skip


def labels_of(obj):
    return obj["metadata"].get("labels") or {}


def parse_labels(text):
    tests = []
    if found := re.search(r"\s(?:in|notin)\s+([^(\s]\S*)", text):
        raise bad_request(f"unable to parse requirement: found '{found[1]}' expected: '('")
    for part in re.findall(r"[^,(]+(?:\([^)]*\))?", text):
        part = part.strip().strip(",")
        if part:
            tests.append(_requirement(part))
    return lambda obj: all(test(labels_of(obj)) for test in tests)


def _requirement(part):
    if found := re.fullmatch(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)", part):
        key, operator, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := re.fullmatch(r"([^=!\s]+)\s*(==|=|!=)\s*(\S*)", part):
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if part.startswith("!"):
        return lambda labels: part[1:].strip() not in labels
    if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", part):
        raise bad_request(f"unable to parse requirement: invalid label key {part!r}")
    return lambda labels: part in labels


def parse_fields(resource, text):
    tests = []
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", part)
        if not found:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        key, operator, value = found.groups()
        if key not in {"metadata.name", "metadata.namespace"} | FIELDS.get(resource.plural, set()):
            raise bad_request(f"field label not supported: {key}")
        tests.append((key, operator == "!=", value))
    return lambda obj: all((dig(obj, key) == value) != negated for key, negated, value in tests)


def by_object(selector):
    """LabelSelector of policy/v1 and apps/v1: None selects nothing, {} everything."""
    if selector is None:
        return lambda _obj: False
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []

    def matches(obj):
        labels = labels_of(obj)
        return all(labels.get(k) == v for k, v in wanted.items()) and all(
            match_expression(e, labels) for e in expressions
        )

    return matches


def match_expression(expression, labels):
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "Gt":
        return key in labels and int(labels[key]) > int(values[0])
    if operator == "Lt":
        return key in labels and int(labels[key]) < int(values[0])
    return {
        "In": key in labels and labels[key] in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[operator]


def dig(obj, path):
    """Value at a dotted path as field selectors compare it: text."""
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    if obj is None:
        return ""
    return str(obj).lower() if isinstance(obj, bool) else str(obj)
