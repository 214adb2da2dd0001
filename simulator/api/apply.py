# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Server-side apply: who owns which leaf field, conflicts, force. Lists are owned whole unless merged by name."""

from __future__ import annotations

import yaml

from simulator.api import patches
from simulator.errors import ApiError, bad_request, options_invalid
from simulator.objects import clone


def server_side(store, resource, namespace, name, current, raw, options, subresource=""):
    """The object after applying `raw` (YAML or JSON) for options["fieldManager"]."""
    manager = options.get("fieldManager")
    if not manager:
        text = "Required value: is required for apply patch"
        raise options_invalid("PatchOptions", "FieldValueRequired", "fieldManager", text)
    try:
        wanted = yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    dry_run = options.get("dryRun") == "All"
    mine = _leaves({k: v for k, v in wanted.items() if k not in ("apiVersion", "kind")})
    if current is None:
        body = clone(wanted)
        body["metadata"]["name"] = name
        body["metadata"]["managedFields"] = [_entry(store, resource, manager, mine)]
        return store.create(resource, body, namespace, dry_run)
    fields = _owners(current)
    if options.get("force") not in ("true", "1"):
        _refuse_conflicts(current, wanted, mine, fields, manager)
    new = patches.strategic(clone(current), wanted) if not resource.crd else patches.merge(clone(current), wanted)
    for path in fields.get(manager, set()) - mine:
        if not any(path in owned for other, owned in fields.items() if other != manager):
            _remove(new, path)
    others = [e for e in current["metadata"].get("managedFields") or [] if e["manager"] != manager]
    new["metadata"]["managedFields"] = [*others, _entry(store, resource, manager, mine)]
    return store.update(resource, current, new, subresource, dry_run)


def _entry(store, resource, manager, leaves):
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": resource.group_version,
        "time": store.clock.stamp(),
        "fieldsType": "FieldsV1",
        "fieldsV1": _tree(leaves),
    }


def _leaves(value, path=()):
    if isinstance(value, dict) and value:
        found = set()
        for key, item in value.items():
            if not path and key == "metadata":
                item = {
                    k: v for k, v in item.items() if k in ("labels", "annotations", "finalizers", "ownerReferences")
                }
                if not item:
                    continue
            found |= _leaves(item, (*path, key))
        return found
    return {path} if path else set()


def _tree(leaves):
    root = {}
    for path in sorted(leaves):
        at = root
        for key in path:
            at = at.setdefault(f"f:{key}", {})
    return root


def _owners(obj):
    owners = {}
    for entry in obj["metadata"].get("managedFields") or []:
        owners.setdefault(entry["manager"], set()).update(_paths(entry.get("fieldsV1") or {}))
    return owners


def _paths(tree, path=()):
    if not tree:
        return {path}
    found = set()
    for key, child in tree.items():
        found |= _paths(child, (*path, key.removeprefix("f:")))
    return found


def _value(obj, path):
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


def _remove(obj, path):
    for key in path[:-1]:
        obj = obj.get(key) if isinstance(obj, dict) else None
    if isinstance(obj, dict):
        obj.pop(path[-1], None)


def _refuse_conflicts(current, wanted, mine, owners, manager):
    causes, said = [], []
    for other, owned in sorted(owners.items()):
        for path in sorted(mine & owned):
            if other != manager and _value(current, path) != _value(wanted, path):
                field = "." + ".".join(path)
                causes.append(("FieldManagerConflict", f'conflict with "{other}"', field))
                said.append(f'conflict with "{other}": {field}')
    if causes:
        plural = "conflict" if len(causes) == 1 else "conflicts"
        message = f"Apply failed with {len(causes)} {plural}: {', '.join(said)}"
        raise ApiError(409, "Conflict", message, causes=causes)
