# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP front: requests in, Kubernetes answers out."""

from __future__ import annotations

import json
import re
import traceback

import orjson
import yaml
from aiohttp import web

from simulator.api import apply, bodies, decoding, discovery, lists, patches, tables, watches
from simulator.api.access import Access
from simulator.api.requests import RequestLog
from simulator.errors import (
    ApiError,
    bad_request,
    details,
    invalid,
    method_not_allowed,
    not_found,
    unknown_path,
    unknown_resource,
    unsupported_media_type,
)

JSON = "application/json"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"


class ApiServer:
    """handle(request) answers everything below /api, /apis, /version, /openapi and /healthz."""

    def __init__(self, store, clock, token):
        self.store = store
        self.clock = clock
        self.access = Access(token)
        self.log = RequestLog(clock)
        self.pages = lists.Pages()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        agent = request.headers.get("User-Agent", "unknown")
        status = 500
        try:
            with self.store.acting(agent):
                response = await self._route(request)
            status = response.status
            return response
        except ApiError as error:
            status = error.code
            return refusal(error)
        except Exception as error:
            # A bug of the simulator: say so where the developer and the client both see it.
            traceback.print_exc()
            return refusal(ApiError(500, "InternalError", f"the simulator failed: {error!r}"))
        finally:
            self.log.count(request, agent, status)

    async def _route(self, request):
        parts = [part for part in request.path.split("/") if part]
        if parts and parts[0] in ("healthz", "readyz", "livez"):
            return web.Response(text="ok")
        user = self.access.authenticate(request)
        if not parts:
            return reply({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]})
        if parts[0] == "version":
            return reply(discovery.VERSION)
        if parts[0] == "openapi":
            return discovery.openapi(self.store, parts)
        accept = request.headers.get("Accept", "*/*")
        if not re.search(r"json|\*/\*|application/\*|yaml|as=", accept):
            known = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            text = f"406: Not Acceptable\n\nAvailable representations: {known}"
            raise ApiError(406, "NotAcceptable", text, details={})
        if parts[0] not in ("api", "apis"):
            raise unknown_path()
        if len(parts) < (2 if parts[0] == "api" else 3):
            return discovery.groups(self.store, parts, accept)
        return await self._resource(request, user, parts)

    async def _resource(self, request, user, parts):
        if parts[0] == "api":
            group, version, rest = "", parts[1], parts[2:]
        else:
            group, version, rest = parts[1], parts[2], parts[3:]
        if group == "authorization.k8s.io":
            return await self.access.review(request, user, self.store)
        if group and not any(r.group == group for r in self.store.resources):
            raise unknown_path()
        if not rest:
            return discovery.resources(self.store, group, version)
        namespace = ""
        if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        resource = self.store.resource(rest[0], group)
        if resource is None or resource.version != version:
            # Groups of custom resources are served by another handler, which answers in plain text.
            custom = any(r.crd for r in self.store.resources if r.group == group)
            raise unknown_path() if custom else unknown_resource()
        name, subresource = (rest[1] if len(rest) > 1 else ""), "/".join(rest[2:])
        if (
            subresource
            and not (subresource == "status" and resource.status)
            and subresource not in resource.subresources
        ):
            raise unknown_resource()
        await self.access.check(user, request, resource, namespace, name, subresource, self.clock)
        if name:
            return await self._one(request, resource, namespace, name, subresource)
        return await self._many(request, resource, namespace)

    async def _many(self, request, resource, namespace):
        query = request.query
        if request.method == "GET":
            if query.get("watch") in ("1", "true"):
                return await watches.stream(self.store, request, resource, namespace)
            return await lists.answer(self.store, self.pages, request, resource, namespace)
        if request.method == "POST":
            if resource.namespaced and not namespace:
                raise method_not_allowed()
            body = await bodies.read(request, kind=resource.kind)
            body, warnings = decoding.checked(resource, body, query.get("fieldValidation", "Warn"))
            created = self.store.create(resource, body, namespace, query.get("dryRun") == "All")
            return reply(created, 201, warnings)
        if request.method == "DELETE":
            options = await bodies.read(request, {})
            chosen = lists.select(self.store, resource, namespace, query)
            gone = [
                self.store.delete(resource, o["metadata"]["name"], o["metadata"].get("namespace", ""), options)
                for o in chosen
            ]
            kind = resource.kind + "List"
            return reply({"kind": kind, "apiVersion": resource.group_version, "metadata": {}, "items": gone})
        raise method_not_allowed()

    async def _one(self, request, resource, namespace, name, subresource):
        store, query = self.store, request.query
        dry_run = query.get("dryRun") == "All"
        current = store.get(resource, name, namespace)
        if subresource in ("eviction", "binding"):
            if request.method != "POST":
                raise method_not_allowed()
            if subresource == "eviction":
                store.evict(namespace, name, await bodies.read(request), dry_run)
                return reply(
                    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
                )
            store.bind(namespace, name, (await bodies.read(request))["target"]["name"])
            return reply({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)
        if current is None and not (request.method == "PATCH" and request.content_type == APPLY):
            raise not_found(resource, name)
        if subresource == "log":
            return await self._log(request, current)
        if subresource == "scale":
            return await self._scale(request, resource, current)
        if request.method == "GET":
            if "as=Table" in request.headers.get("Accept", ""):
                meta = {"resourceVersion": current["metadata"]["resourceVersion"]}
                return reply(tables.table(resource, [current], meta))
            return self._formatted(request, current)
        if request.method == "PUT":
            return await self._put(request, resource, current, name, subresource, dry_run)
        if request.method == "DELETE":
            return await self._delete(request, resource, namespace, name, dry_run)
        if request.method == "PATCH":
            return await self._patch(request, resource, namespace, name, current, subresource, dry_run)
        raise method_not_allowed()

    def _formatted(self, request, obj):
        if "yaml" in request.headers.get("Accept", ""):
            return web.Response(text=yaml.safe_dump(obj), content_type="application/yaml")
        return reply(obj)

    async def _put(self, request, resource, current, name, subresource, dry_run):
        body = await bodies.read(request, kind=resource.kind)
        body, warnings = decoding.checked(resource, body, request.query.get("fieldValidation", "Warn"))
        if resource.plural == "leases" and not (body.get("metadata") or {}).get("resourceVersion"):
            text = "Invalid value: 0: must be specified for an update"
            error = invalid(resource, name, [("FieldValueInvalid", "metadata.resourceVersion", text)])
            error.body["message"] = f'{resource.full_name} "{name}" is invalid: metadata.resourceVersion: {text}'
            error.body["details"]["kind"] = resource.plural
            raise error
        return reply(self.store.update(resource, current, body, subresource, dry_run), 200, warnings)

    async def _delete(self, request, resource, namespace, name, dry_run):
        options = await bodies.read(request, {})
        if "gracePeriodSeconds" in request.query:
            options.setdefault("gracePeriodSeconds", int(request.query["gracePeriodSeconds"]))
        if "propagationPolicy" in request.query:
            options.setdefault("propagationPolicy", request.query["propagationPolicy"])
        gone = self.store.delete(resource, name, namespace, options, dry_run)
        if resource.plural == "pods" or gone["metadata"].get("deletionTimestamp"):
            return reply(gone)
        found = {**details(resource, name), "uid": gone["metadata"]["uid"]}
        return reply({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": found})

    async def _patch(self, request, resource, namespace, name, current, subresource, dry_run):
        kind, raw = request.content_type, await request.read()
        if kind == APPLY:
            options = dict(request.query)
            applied = apply.server_side(self.store, resource, namespace, name, current, raw, options, subresource)
            return reply(applied, 200 if current else 201)
        if kind not in (JSON_PATCH, MERGE) and (resource.crd or kind != STRATEGIC):
            if resource.crd:
                raise unsupported_media_type([JSON_PATCH, MERGE, APPLY])
            raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
        try:
            patch = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise bad_request(f"error decoding patch: {decoding.json_error(raw)}") from error
        how = {JSON_PATCH: patches.json_patch, MERGE: patches.merge, STRATEGIC: patches.strategic}[kind]
        mode = request.query.get("fieldValidation", "Warn")
        new, warnings = decoding.checked(resource, how(current, patch), mode, patched=True)
        return reply(self.store.update(resource, current, new, subresource, dry_run), 200, warnings)

    async def _scale(self, request, resource, current):
        metadata = current["metadata"]
        if request.method in ("PUT", "PATCH"):
            body = await bodies.read(request)
            replicas = body["spec"]["replicas"] if isinstance(body, dict) else body[0]["value"]
            name, namespace = metadata["name"], metadata["namespace"]
            current = self.store.mutate(resource, name, lambda o: o["spec"].update(replicas=replicas), namespace)
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        selector = (current["spec"].get("selector") or {}).get("matchLabels") or {}
        return reply(
            {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": {k: current["metadata"][k] for k in kept},
                "spec": {"replicas": current["spec"]["replicas"]},
                "status": {
                    "replicas": (current.get("status") or {}).get("replicas", 0),
                    "selector": ",".join(f"{k}={v}" for k, v in selector.items()),
                },
            }
        )

    async def _log(self, request, pod):
        containers = [c["name"] for c in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]]
        container = request.query.get("container") or pod["spec"]["containers"][0]["name"]
        if container not in containers:
            name = pod["metadata"]["name"]
            raise bad_request(f"container {container} is not valid for pod {name}")
        uid, namespace, name = (pod["metadata"][k] for k in ("uid", "namespace", "name"))
        lines = self.store.logs.lines(uid, container)
        if "tailLines" in request.query:
            lines = lines[-int(request.query["tailLines"]) :] if int(request.query["tailLines"]) else []
        text = "".join(line if line.endswith("\n") else line + "\n" for line in lines)
        if "limitBytes" in request.query:
            text = text[: int(request.query["limitBytes"])]
        if request.query.get("follow") not in ("true", "1"):
            return web.Response(text=text)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(text.encode())
        sent = len(self.store.logs.lines(uid, container))
        while True:
            lines = self.store.logs.lines(uid, container)
            if len(lines) > sent:
                await response.write("".join(ln if ln.endswith("\n") else ln + "\n" for ln in lines[sent:]).encode())
                sent = len(lines)
            found = self.store.get("pods", name, namespace)
            over = (
                found is None
                or found["metadata"]["uid"] != uid
                or found["status"].get("phase") in ("Succeeded", "Failed")
            )
            if over:
                return response
            await self.clock.sleep(0.2 * self.clock.speed)


def refusal(error):
    if error.text:
        return web.Response(text=error.text, status=error.code)
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    return web.Response(body=orjson.dumps(error.body), status=error.code, headers=headers, content_type=JSON)


def reply(obj, status=200, warnings=()):
    response = web.Response(body=orjson.dumps(obj), status=status, content_type=JSON)
    for warning in warnings:
        response.headers.add("Warning", f"299 - {json.dumps(warning)}")
    return response
