# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the API serves: groups, resources (legacy and aggregated), and an OpenAPI document that kubectl can work with.

The OpenAPI documents name every type with an open schema, so client-side validation accepts what the server accepts.
"""

from __future__ import annotations

import orjson
from aiohttp import web

from simulator.errors import unknown_path, unknown_resource

VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3+simulator",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "simulated/gpu",
}
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
SUBRESOURCE_KINDS = {
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
}
SUBRESOURCE_VERBS = {"eviction": ["create"], "binding": ["create"], "log": ["get"], "finalize": ["update"]}
REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")


def _reply(obj, content_type="application/json"):
    return web.Response(body=orjson.dumps(obj), headers={"Content-Type": content_type})


def _group_versions(store):
    found = {}
    for resource in store.resources:
        found.setdefault(resource.group, set()).add(resource.version)
    found.setdefault("authorization.k8s.io", set()).add("v1")
    return {group: sorted(versions) for group, versions in sorted(found.items())}


def groups(store, parts, accept):
    if "as=APIGroupDiscoveryList" in accept and len(parts) == 1:
        return _aggregated(store, parts[0])
    if parts == ["api"]:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]
        return _reply({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
    listed = [_group(name, versions) for name, versions in _group_versions(store).items() if name]
    if len(parts) == 1:
        return _reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
    found = next((group for group in listed if group["name"] == parts[1]), None)
    if found is None:
        raise unknown_path()
    return _reply({"kind": "APIGroup", "apiVersion": "v1", **found})


def _group(name, versions):
    shown = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[-1]}


def resources(store, group, version):
    found = [r for r in store.resources if (r.group, r.version) == (group, version)]
    if not found:
        raise unknown_resource()
    listed = []
    for resource in found:
        listed.append(_entry(resource))
        listed += [_subresource(resource, name) for name in _subresources(resource)]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}"}
    if not group:
        head = {"kind": "APIResourceList", "groupVersion": version}
    return _reply({**head, "resources": listed})


def _subresources(resource):
    return sorted((*resource.subresources, *(("status",) if resource.status else ())))


def _entry(resource):
    entry = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": VERBS,
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _subresource(resource, name):
    entry = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    group, version, kind = SUBRESOURCE_KINDS.get(name, ("", "", resource.kind))
    if version:
        entry.update(group=group, version=version)
    return {**entry, "kind": kind, "verbs": SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"])}


def _aggregated(store, root):
    items = []
    for group, versions in _group_versions(store).items():
        if (root == "api") != (group == ""):
            continue
        items.append(
            {
                "metadata": {"name": group},
                "versions": [_aggregated_version(store, group, v) for v in reversed(versions)],
            }
        )
    kind = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    return _reply({**kind, "metadata": {}, "items": items}, content_type)


def _aggregated_version(store, group, version):
    listed = []
    for resource in store.resources:
        if (resource.group, resource.version) != (group, version):
            continue
        entry = {
            "resource": resource.plural,
            "responseKind": {"group": "", "version": "", "kind": resource.kind},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.kind.lower(),
            "verbs": VERBS,
        }
        if resource.short:
            entry["shortNames"] = list(resource.short)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        if names := _subresources(resource):
            entry["subresources"] = [_aggregated_subresource(resource, name) for name in names]
        listed.append(entry)
    if group == "authorization.k8s.io":
        for name in REVIEWS:
            kind = "SelfSubjectAccessReview" if "access" in name else "SelfSubjectRulesReview"
            response = {"group": group, "version": version, "kind": kind}
            listed.append({"resource": name, "responseKind": response, "scope": "Cluster", "verbs": ["create"]})
    return {"version": version, "freshness": "Current", "resources": listed}


def _aggregated_subresource(resource, name):
    group, version, kind = SUBRESOURCE_KINDS.get(name, ("", "", resource.kind))
    verbs = SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"])
    return {"subresource": name, "responseKind": {"group": group, "version": version, "kind": kind}, "verbs": verbs}


def openapi(store, parts):
    paths = {_path(group, v): (group, v) for group, versions in _group_versions(store).items() for v in versions}
    if parts == ["openapi", "v3"]:
        return _reply({"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}})
    if parts == ["openapi", "v2"]:
        definitions = {}
        for resource in store.resources:
            definitions.update(_definition(resource))
        info = {"title": "simulator", "version": VERSION["gitVersion"]}
        return _reply({"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions})
    wanted = "/".join(parts[2:])
    if parts[:2] != ["openapi", "v3"] or wanted not in paths:
        raise unknown_path()
    group, version = paths[wanted]
    served, schemas = {}, {}
    for resource in store.resources:
        if (resource.group, resource.version) == (group, version):
            schemas.update(_definition(resource))
            scope = "namespaces/{namespace}/" if resource.namespaced else ""
            operation = {
                "parameters": [
                    {"name": name, "in": "query", "schema": {"type": "string"}}
                    for name in ("fieldValidation", "dryRun")
                ],
                "x-kubernetes-group-version-kind": _gvk(resource),
                "responses": {"200": {"description": "OK"}},
            }
            served[f"/{wanted}/{scope}{resource.plural}/{{name}}"] = {"patch": operation, "put": operation}
    info = {"title": "simulator", "version": VERSION["gitVersion"]}
    return _reply({"openapi": "3.0.0", "info": info, "paths": served, "components": {"schemas": schemas}})


def _path(group, version):
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _gvk(resource):
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _definition(resource):
    name = f"io.simulator.{resource.group or 'core'}.{resource.version}.{resource.kind}"
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        name: {
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": open_object,
                "spec": open_object,
                "status": open_object,
            },
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-group-version-kind": [_gvk(resource)],
        }
    }
