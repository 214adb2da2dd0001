# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists: selectors, pages from one snapshot, and the rules about resourceVersion."""

from __future__ import annotations

import asyncio
import base64
import collections
import json
import re
import uuid

import orjson
from aiohttp import web

from simulator.api import tables
from simulator.api.decoding import json_error
from simulator.errors import ApiError, bad_request
from simulator.objects import key_of
from simulator.selectors import parse_fields, parse_labels

JSON = "application/json"


class Pages:
    """Snapshots that continue tokens refer to."""

    def __init__(self, keep=50):
        self._kept, self._keep = collections.OrderedDict(), keep

    def put(self, version, objects):
        snapshot = uuid.uuid4().hex
        self._kept[snapshot] = (version, objects)
        while len(self._kept) > self._keep:
            self._kept.popitem(last=False)
        return snapshot

    def get(self, token):
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            found = json.loads(raw)
            snapshot, start = found["snapshot"], int(found["start"])
        except (ValueError, KeyError, TypeError) as error:
            text = "invalid continue token: continue key is not valid: "
            raise bad_request(text + (json_error(raw) or "incomplete")) from error
        if snapshot not in self._kept:
            text = "The provided continue parameter is too old to display a consistent list result."
            raise ApiError(410, "Expired", text)
        return snapshot, start, *self._kept[snapshot]

    def expire(self):
        self._kept.clear()


def token(snapshot, start):
    return base64.urlsafe_b64encode(orjson.dumps({"snapshot": snapshot, "start": start})).decode().rstrip("=")


def matcher(resource, namespace, query):
    """A test for objects, or None when the query selects everything."""
    tests = []
    if namespace:
        tests.append(lambda obj: obj["metadata"].get("namespace") == namespace)
    if query.get("labelSelector"):
        tests.append(parse_labels(query["labelSelector"]))
    if query.get("fieldSelector"):
        tests.append(parse_fields(resource, query["fieldSelector"]))
    return (lambda obj: all(test(obj) for test in tests)) if tests else None


def select(store, resource, namespace, query):
    match = matcher(resource, namespace, query)
    candidates = store.list(resource)
    on_node = re.search(r"(?:^|,)spec\.nodeName==?([^,]+)", query.get("fieldSelector", ""))
    if resource.plural == "pods" and on_node:
        candidates = store.pods_on(on_node[1])
    return sorted((obj for obj in candidates if match is None or match(obj)), key=key_of)


async def answer(store, pages, request, resource, namespace):
    query, accept = request.query, request.headers.get("Accept", "")
    version = query.get("resourceVersion", "")
    if version and not version.isdigit():
        text = f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise bad_request(f"invalid resource version: {text}")
    if not (query.get("limit") or "0").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{query["limit"]}": invalid syntax')
    limit = 0 if version == "0" else int(query.get("limit") or 0)
    if int(version or 0) > store.version:
        await asyncio.sleep(3)
        text = f"Timeout: Too large resource version: {version}, current: {store.version}"
        raise ApiError(504, "Timeout", text, 1, [("ResourceVersionTooLarge", "Too large resource version")])
    if query.get("continue"):
        snapshot, start, listed_at, objects = pages.get(query["continue"])
    else:
        listed_at, objects, start, snapshot = store.version, select(store, resource, namespace, query), 0, None
    meta = {"resourceVersion": str(listed_at)}
    if limit and start + limit < len(objects):
        snapshot = snapshot or pages.put(listed_at, objects)
        meta["continue"] = token(snapshot, start + limit)
        if not query.get("labelSelector") and not query.get("fieldSelector"):
            meta["remainingItemCount"] = len(objects) - start - limit
    page = objects[start : start + limit] if limit else objects[start:]
    if "as=Table" in accept:
        return _reply(tables.table(resource, page, meta))
    if "as=PartialObjectMetadataList" in accept:
        items = [
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]} for o in page
        ]
        kind = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        return _reply({**kind, "metadata": meta, "items": items})
    head = b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[' % (
        resource.kind.encode(),
        resource.group_version.encode(),
        orjson.dumps(meta),
    )
    return web.Response(body=head + b",".join(store.encoded(resource, o) for o in page) + b"]}", content_type=JSON)


def _reply(obj):
    return web.Response(body=orjson.dumps(obj), content_type=JSON)
