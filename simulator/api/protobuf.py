# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bodies in application/vnd.kubernetes.protobuf, which kubectl's typed calls send (`create namespace`, `auth can-i`).

The envelope is the magic k8s\\0 and a runtime.Unknown; messages.json holds the field numbers. Answers are always JSON, which
those clients accept. Go writes the zero of every field that is no pointer, so empty strings are dropped here; zeros and
empty messages are kept, because `gracePeriodSeconds: 0` and `emptyDir: {}` mean something.
"""

from __future__ import annotations

import base64
import datetime
import json
import struct
from pathlib import Path

from simulator.api.decoding import GROUPS

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
MESSAGES = json.loads(Path(__file__).with_name("messages.json").read_text(encoding="utf-8"))
MAGIC = b"k8s\0"


class Malformed(ValueError):
    """Not protobuf, or of a kind that messages.json does not hold."""


def decode(raw):
    """The object as JSON would have it, apiVersion and kind included."""
    if not raw.startswith(MAGIC):
        raise Malformed("the body does not begin with k8s\\0")
    envelope = dict(_fields(raw[len(MAGIC) :]))
    meta = {number: value.decode() for number, value in _fields(envelope.get(1, b""))}
    api_version, kind = meta.get(1, ""), meta.get(2, "")
    group, _slash, version = api_version.rpartition("/")
    name = f"{GROUPS.get(group, group.partition('.')[0])}.{version}.{kind}"
    if kind == "DeleteOptions":
        name = "meta.v1.DeleteOptions"
    if name not in MESSAGES:
        raise Malformed(f"no message is known for {api_version} {kind}")
    return {"apiVersion": api_version, "kind": kind, **_message(name, envelope.get(2, b""))}


def _fields(raw):
    """(number, int or bytes) one after the other."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(raw, at)
        elif wire == 1:
            value, at = raw[at : at + 8], at + 8
        elif wire == 2:
            size, at = _varint(raw, at)
            value, at = raw[at : at + size], at + size
        else:
            raise Malformed(f"wire type {wire}")
        if at > len(raw):
            raise Malformed("the body ends inside a field")
        yield number, value


def _varint(raw, at):
    value, shift = 0, 0
    while True:
        if at >= len(raw):
            raise Malformed("the body ends inside a number")
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _message(name, raw):
    if name in _SPECIAL:
        return _SPECIAL[name](dict(_fields(raw)))
    found = {}
    for number, value in _fields(raw):
        field, shape = MESSAGES[name].get(str(number), (None, None))
        if field is None:
            continue
        if field == "":
            found.update(_message(shape[1:], value))
        elif isinstance(shape, list):
            found.setdefault(field, []).append(_value(shape[0], value))
        elif isinstance(shape, dict):
            entry = dict(_fields(value))
            found.setdefault(field, {})[entry.get(1, b"").decode()] = _value(shape[""], entry.get(2, b""))
        elif (read := _value(shape, value)) not in ("", None):
            found[field] = read
    return found


def _value(shape, value):
    if shape.startswith("#"):
        return _message(shape[1:], value)
    if shape == "string":
        return value.decode()
    if shape == "bytes":
        return base64.b64encode(value).decode()
    if shape == "bool":
        return bool(value)
    if shape == "double":
        return struct.unpack("<d", value)[0]
    return _signed(value)


def _signed(value):
    return value - 2**64 if value >= 2**63 else value


def _time(fields, micro=False):
    """None for the zero time, which is an empty message."""
    if not fields:
        return None
    moment = datetime.datetime.fromtimestamp(_signed(fields.get(1, 0)), datetime.timezone.utc)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{fields.get(2, 0) // 1000:06d}Z" if micro else f"{text}Z"


def _int_or_string(fields):
    return fields.get(3, b"").decode() if fields.get(1, 0) else _signed(fields.get(2, 0))


_SPECIAL = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": lambda fields: _time(fields, micro=True),
    "resource.Quantity": lambda fields: fields.get(1, b"").decode(),
    "intstr.IntOrString": _int_or_string,
    "meta.v1.FieldsV1": lambda fields: json.loads(fields.get(1, b"{}")),
    "runtime.RawExtension": lambda fields: json.loads(fields.get(1, b"null")),
}
