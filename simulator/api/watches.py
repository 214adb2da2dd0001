# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watches: events from a version on, bookmarks, initial events, and 410 as an event inside a 200."""

from __future__ import annotations

import asyncio
import time

import orjson
from aiohttp import web

from simulator.api import lists, tables
from simulator.errors import ApiError, options_invalid

BOOKMARK_EVERY_S = 60


async def stream(store, request, resource, namespace):
    query = request.query
    match = lists.matcher(resource, namespace, query)
    version, initial = query.get("resourceVersion", ""), query.get("sendInitialEvents") == "true"
    _check(query, version, initial)
    as_table = "as=Table" in request.headers.get("Accept", "")
    queue = asyncio.Queue()
    changes = store.history[resource]

    def seen(change):
        if change is None:
            queue.put_nowait(None)
        elif change.resource is resource and (line := event(store, change, match, as_table)):
            queue.put_nowait(line)

    first = _first(store, resource, namespace, query, match, changes, as_table)
    store.subscribe(seen)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    try:
        await response.prepare(request)
        for i in range(0, len(first), 500):
            await response.write(b"".join(first[i : i + 500]))
        if first and b'"type":"ERROR"' in first[-1]:
            return response
        await _follow(store, resource, query, queue, response)
    except (ConnectionResetError, ConnectionError, asyncio.CancelledError):
        pass
    finally:
        if seen in store.subscribers:
            store.subscribers.remove(seen)
    return response


async def _follow(store, resource, query, queue, response):
    end = time.monotonic() + float(query.get("timeoutSeconds") or 1800)
    bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
    next_bookmark = time.monotonic() + BOOKMARK_EVERY_S / 6
    while (left := end - time.monotonic()) > 0:
        try:
            lines = [await asyncio.wait_for(queue.get(), min(left, 5))]
            while not queue.empty() and len(lines) < 500:
                lines.append(queue.get_nowait())
            if None in lines:  # the cluster was reset
                return
            await response.write(b"".join(lines))
        except asyncio.TimeoutError:
            pass
        if bookmarks and time.monotonic() >= next_bookmark:
            next_bookmark = time.monotonic() + BOOKMARK_EVERY_S
            await response.write(bookmark(store, resource))


def _check(query, version, initial):
    if initial and query.get("resourceVersionMatch") != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise options_invalid("ListOptions", "FieldValueForbidden", "resourceVersionMatch", text)
    if version and not version.isdigit():
        text = f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise ApiError(500, "", text)


def _first(store, resource, namespace, query, match, changes, as_table):
    version = query.get("resourceVersion", "")
    initial = query.get("sendInitialEvents") == "true"
    if version in ("", "0") or initial:
        chosen = lists.select(store, resource, namespace, query)
        lines = [line(store, resource, "ADDED", obj, as_table) for obj in chosen]
        return [*lines, bookmark(store, resource, initial_end=True)] if initial else lines
    wanted = int(version)
    forgotten = len(changes) == changes.maxlen and wanted < changes[0].version - 1
    if forgotten or wanted < store.compacted:
        oldest = changes[0].version if forgotten else store.compacted
        status = ApiError(410, "Expired", f"too old resource version: {wanted} ({oldest})").body
        return [orjson.dumps({"type": "ERROR", "object": status}) + b"\n"]
    return [text for c in changes if c.version > wanted and (text := event(store, c, match, as_table))]


def event(store, change, match, as_table=False):
    """The line a watcher with this selection sees for a change, or None. What leaves the selection is DELETED as it was."""
    kind, obj, old = change.type, change.object, change.old
    if match is not None:
        now, before = match(obj), old is not None and match(old)
        if kind == "DELETED":
            if not now and not before:
                return None
        elif now:
            kind = "MODIFIED" if before else "ADDED"
        elif before:
            version = obj["metadata"]["resourceVersion"]
            obj, kind = {**old, "metadata": {**old["metadata"], "resourceVersion": version}}, "DELETED"
        else:
            return None
    return line(store, change.resource, kind, obj, as_table)


def line(store, resource, kind, obj, as_table=False):
    if as_table:
        shown = tables.table(resource, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]})
        return orjson.dumps({"type": kind, "object": shown}) + b"\n"
    head = b'{"type":"%s","object":{"kind":"%s","apiVersion":"%s",' % (
        kind.encode(),
        resource.kind.encode(),
        resource.group_version.encode(),
    )
    return head + store.encoded(resource, obj)[1:] + b"}\n"


def bookmark(store, resource, initial_end=False):
    metadata = {"resourceVersion": str(store.version)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    shown = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": metadata}
    return orjson.dumps({"type": "BOOKMARK", "object": shown}) + b"\n"
