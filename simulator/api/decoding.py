# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the server's decoder says about a body: unknown fields, wrong types, JSON that does not parse.

types.json holds the fields of the built-in kinds as Kubernetes 1.36.3 publishes them. Kinds that are not in it (events,
webhook configurations, storage classes and the like) are taken as they come.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from simulator.api import validation
from simulator.errors import ApiError, bad_request
from simulator.resources import schema_of

TYPES = json.loads(Path(__file__).with_name("types.json").read_text(encoding="utf-8"))
GROUPS = {"": "core", "coordination.k8s.io": "coordination", "scheduling.k8s.io": "scheduling"}
GROUPS["rbac.authorization.k8s.io"] = "rbac"
# time.Parse reports the first piece of its layout that does not fit.
MICRO_TIME = (
    (r"\d{4}", "2006"), ("-", "-"), (r"\d\d", "01"), ("-", "-"), (r"\d\d", "02"), ("T", "T"), (r"\d\d", "15"),
    (":", ":"), (r"\d\d", "04"), (":", ":"), (r"\d\d", "05"), (r"\.\d+", ".000000"), (r"Z|[+-]\d\d:\d\d", "Z07:00"),
)  # fmt: skip
PYTHON_KINDS = ((bool, "bool"), (str, "string"), ((int, float), "number"), (dict, "object"), (list, "array"))


class Undecodable(Exception):
    """A value of the wrong type, in the words of Go's decoder."""


def decode(resource, body):
    """(body without unknown fields, their paths). Raises Undecodable."""
    if resource.crd:
        return validation.prune(schema_of(resource), body)
    root = f"{GROUPS.get(resource.group, resource.group)}.{resource.version}.{resource.kind}"
    if root not in TYPES:
        return body, []
    unknown = []
    return _walk(f"#{root}", body, "", "", unknown), unknown


def checked(resource, body, mode, patched=False):
    """(body, warnings) for fieldValidation `mode`; refuses wrong types always and unknown fields under Strict."""
    try:
        kept, unknown = decode(resource, body)
    except Undecodable as error:
        raise _refusal(resource, body, str(error), patched) from error
    said = [f'unknown field "{path}"' for path in unknown]
    if said and mode == "Strict":
        raise _refusal(resource, body, "strict decoding error: " + ", ".join(said), patched)
    return kept, said if mode == "Warn" else []


def _refusal(resource, body, text, patched):
    if not patched:
        head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        return bad_request(f"{head}: {text}")
    value = f"Invalid value: {json.dumps(json.dumps(body, separators=(',', ':')))}: {text}"
    causes = [("FieldValueInvalid", value, "patch")]
    return ApiError(422, "Invalid", f' "" is invalid: patch: {value}', causes=causes)


def _walk(shape, value, path, owner, unknown):
    if value is None:
        return None
    if isinstance(shape, list):
        _must(value, list, path, owner, "[]" + _go(shape[0]))
        return [_walk(shape[0], item, f"{path}[{i}]", owner, unknown) for i, item in enumerate(value)]
    if isinstance(shape, dict):
        _must(value, dict, path, owner, "map[string]" + _go(shape[""]))
        return {key: _walk(shape[""], item, f"{path}.{key}", owner, unknown) for key, item in value.items()}
    if shape.startswith("#"):
        return _struct(shape[1:], value, path, owner, unknown)
    _leaf(shape, value, path, owner)
    return str(value) if shape == "quantity" else value


def _struct(name, value, path, owner, unknown):
    _must(value, dict, path, owner, _go(f"#{name}"))
    fields, kept = TYPES[name], {}
    for field, item in value.items():
        where = f"{path}.{field}".lstrip(".")
        if item is None:
            continue
        if field in fields:
            kept[field] = _walk(fields[field], item, where, name.rpartition(".")[2], unknown)
        else:
            unknown.append(where)
    return kept


def _leaf(shape, value, path, owner):
    if shape == "string":
        _must(value, str, path, owner, "string")
    elif shape == "bool":
        _must(value, bool, path, owner, "bool")
    elif shape in ("int32", "int64"):
        if isinstance(value, bool) or not isinstance(value, int):
            raise _unmarshal(value, path, owner, shape)
    elif shape == "microtime":
        _must(value, str, path, owner, "string")
        _micro_time(value)


def _must(value, kind, path, owner, go_type):
    if not isinstance(value, kind):
        raise _unmarshal(value, path, owner, go_type)


def _unmarshal(value, path, owner, go_type):
    found = next(name for kind, name in PYTHON_KINDS if isinstance(value, kind))
    field = re.sub(r"\[\d+\]", "", path)
    return Undecodable(f"json: cannot unmarshal {found} into Go struct field {owner}.{field} of type {go_type}")


def _go(shape):
    if isinstance(shape, str):
        name = shape.lstrip("#").rsplit(".", 2)
        return "".join(name[-2:-1]) + "." + name[-1] if len(name) > 1 else name[0]
    return "[]" + _go(shape[0]) if isinstance(shape, list) else "map[string]" + _go(shape[""])


def _micro_time(text):
    rest = text
    for pattern, piece in MICRO_TIME:
        found = re.match(pattern, rest)
        if not found:
            layout = "2006-01-02T15:04:05.000000Z07:00"
            raise Undecodable(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{piece}"')
        rest = rest[found.end() :]


def json_error(raw):
    """encoding/json's words for the first thing wrong in `raw` (bytes)."""
    text = raw.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        at = error.pos
        if at >= len(text):
            return "unexpected end of JSON input"
        before = text[:at].rstrip()
        where = "looking for beginning of value"
        if error.msg.startswith("Expecting property name"):
            where = "looking for beginning of object key string"
        elif error.msg.startswith("Extra data"):
            where = "after top-level value"
        elif "delimiter" in error.msg:
            where = "after object key:value pair" if before else where
        return f"invalid character '{text[at]}' {where}"
    return ""
