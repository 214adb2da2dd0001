# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The three patch formats and server-side apply's field paths, as tables."""

from __future__ import annotations

import pytest

from simulator.api import patches
from simulator.errors import ApiError


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": "b"}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_merge_is_rfc_7396(target, patch, result):
    assert patches.merge(target, patch) == result


READY, GPU = {"type": "Ready", "status": "True"}, {"type": "Gpu", "status": "False"}
TAINT = {"key": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"taints": [TAINT]}, {"taints": [{"key": "b"}]}, {"taints": [{"key": "b"}]}),
        ({"conditions": [READY]}, {"conditions": [GPU]}, {"conditions": [GPU, READY]}),
        (
            {"conditions": [READY, GPU]},
            {"conditions": [{"type": "Gpu", "status": "True"}]},
            {"conditions": [READY, {"type": "Gpu", "status": "True"}]},
        ),
        ({"conditions": [READY, GPU]}, {"conditions": [{"type": "Gpu", "$patch": "delete"}]}, {"conditions": [READY]}),
        ({"conditions": [READY]}, {"conditions": [{"$patch": "replace"}, GPU]}, {"conditions": [GPU]}),
        ({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({"spec": {"a": 1}}, {"spec": {"$patch": "replace", "b": 2}}, {"spec": {"b": 2}}),
        ({"a": 1}, {"$setElementOrder/conditions": [], "$retainKeys": ["a"], "b": 2}, {"a": 1, "b": 2}),
        (
            {"ports": [{"port": 80, "name": "web"}]},
            {"ports": [{"port": 81}]},
            {"ports": [{"port": 81}, {"port": 80, "name": "web"}]},
        ),
        (
            {"ports": [{"containerPort": 80}]},
            {"ports": [{"containerPort": 80, "name": "web"}]},
            {"ports": [{"containerPort": 80, "name": "web"}]},
        ),
    ],
)
def test_strategic(target, patch, result):
    assert patches.strategic(target, patch) == result


def test_strategic_needs_the_merge_key():
    with pytest.raises(ApiError, match="does not contain declared merge key: type"):
        patches.strategic({}, {"conditions": [{"status": "True"}]})


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/b", "value": 1}, {"a": {"x/y": 0, "b": 1}, "l": [1, 2]}),
        ({"op": "replace", "path": "/a/x~1y", "value": 1}, {"a": {"x/y": 1}, "l": [1, 2]}),
        ({"op": "remove", "path": "/l/0"}, {"a": {"x/y": 0}, "l": [2]}),
        ({"op": "add", "path": "/l/-", "value": 3}, {"a": {"x/y": 0}, "l": [1, 2, 3]}),
        ({"op": "test", "path": "/l/1", "value": 2}, {"a": {"x/y": 0}, "l": [1, 2]}),
        ({"op": "test", "path": "/l/1", "value": 3}, None),
        ({"op": "remove", "path": "/a/nothing"}, None),
        ({"op": "replace", "path": "/a/nothing", "value": 1}, None),
        ({"op": "move", "path": "/a", "from": "/l"}, None),
    ],
)
def test_json_patch(operation, result):
    document = {"a": {"x/y": 0}, "l": [1, 2]}
    if result is None:
        with pytest.raises(ApiError) as refused:
            patches.json_patch(document, [operation])
        assert refused.value.code == 422
    else:
        assert patches.json_patch(document, [operation]) == result
    assert document == {"a": {"x/y": 0}, "l": [1, 2]}
