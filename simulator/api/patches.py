# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The three patch formats of the API, on plain JSON."""

from __future__ import annotations

from simulator.errors import ApiError
from simulator.objects import clone

MERGE_KEYS = {
    "containers": "name", "initContainers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath",
    "conditions": "type", "ownerReferences": "uid", "addresses": "type", "imagePullSecrets": "name",
    "hostAliases": "ip", "topologySpreadConstraints": "topologyKey", "ephemeralContainers": "name",
    "volumeDevices": "devicePath", "schedulingGates": "name", "resourceClaims": "name", "podIPs": "ip", "hostIPs": "ip",
}  # fmt: skip
MERGE_SETS = {"finalizers", "podCIDRs"}


def merge(target, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge(target.get(key), value)
    return target


def strategic(target, patch):
    """Strategic merge for the built-in types (lists merged by their patchMergeKey; spec.taints is atomic)."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            target[name] = [x for x in target.get(name) or [] if x not in value]
        elif key.startswith("$setElementOrder/") or key == "$retainKeys":
            continue
        elif value is None:
            target.pop(key, None)
        elif isinstance(value, list) and key in MERGE_SETS:
            old = list(target.get(key) or [])
            target[key] = old + [x for x in value if x not in old]
        elif isinstance(value, list) and key == "ports" and all(isinstance(x, dict) for x in value):
            # Containers and Services merge their ports by different keys.
            by = "containerPort" if any("containerPort" in x for x in value) else "port"
            target[key] = _merge_list(target.get(key), value, by)
        elif isinstance(value, list) and key in MERGE_KEYS and all(isinstance(x, dict) for x in value):
            target[key] = _merge_list(target.get(key), value, MERGE_KEYS[key])
        elif isinstance(value, dict):
            target[key] = strategic(target.get(key), value)
        else:
            target[key] = value
    return target


def _merge_list(old, new, key):
    if any(item.get("$patch") == "replace" for item in new):
        return [item for item in new if "$patch" not in item]
    before = [item.get(key) for item in old or []]
    merged = [clone(item) for item in old or []]
    for item in new:
        if key not in item:
            raise ApiError(422, "Invalid", f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, found in enumerate(merged) if found.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            merged.append(item)
        else:
            merged[at] = strategic(merged[at], item)
    return _ordered(merged, before, [item[key] for item in new], key)


def _ordered(merged, before, patched, key):
    """As mergeSortedSlice of apimachinery has it: new items stand in front of those the patch did not name."""
    left = [item for item in merged if item[key] not in patched]
    right = [item for item in merged if item[key] in patched]
    found = []
    while left and right:
        both = left[0][key] in before and right[0][key] in before
        first = left if both and before.index(left[0][key]) < before.index(right[0][key]) else right
        found.append(first.pop(0))
    return found + left + right


def json_patch(document, operations):
    """RFC 6902 with add, remove, replace and test. Whatever does not apply is the server's bare 422."""
    document = clone(document)
    for operation in operations:
        tokens = [t.replace("~1", "/").replace("~0", "~") for t in operation["path"].split("/")[1:]]
        try:
            parent = document
            for token in tokens[:-1]:
                parent = parent[int(token)] if isinstance(parent, list) else parent[token]
            _apply(parent, tokens[-1], operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _refused() from error
    return document


def _apply(parent, key, operation):
    what = operation["op"]
    if isinstance(parent, list):
        key = len(parent) if key == "-" else int(key)
    if what == "test":
        if parent[key] != operation["value"]:
            raise _refused()
    elif what == "remove":
        del parent[key]
    elif what == "add" and isinstance(parent, list):
        parent.insert(key, operation["value"])
    elif what in ("add", "replace"):
        if what == "replace":
            parent[key]
        parent[key] = operation["value"]
    else:
        raise _refused()


def _refused():
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", details={})
