# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GET /sim/events: changes of the cluster and violations as server-sent events, for a viewer."""

from __future__ import annotations

import asyncio
import heapq
import json

from aiohttp import web

from simulator.objects import condition, is_terminating
from simulator.observer.shapes import holders

WATCHED = ("nodes", "pods", "poddisruptionbudgets", "noderecords", "jobs", "clusterpolicies")
KEEP_ALIVE_S = 15


async def stream(store, observer, request):
    """Every event has the store's version as its id; Last-Event-ID goes on after it, as EventSource does by itself.

    `event: Reset` says that what went before is not known any more: read /sim/state anew. The stream ends when the cluster
    is reset.
    """
    queue = asyncio.Queue()

    def seen(change):
        if change is None:
            queue.put_nowait(None)
        elif text := message(change):
            queue.put_nowait(text)

    def violated(violation):
        queue.put_nowait(f"event: Violation\ndata: {json.dumps(violation)}\n\n")

    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    first = "retry: 1000\n\n" + _since(store, request.headers.get("Last-Event-ID", ""))
    store.subscribe(seen)
    observer.listeners.append(violated)
    try:
        await response.prepare(request)
        await response.write(first.encode())
        while True:
            try:
                text = await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
            except asyncio.TimeoutError:
                text = ": still here\n\n"
            if text is None:
                break
            await response.write(text.encode())
    except (ConnectionError, asyncio.CancelledError):
        pass  # the viewer has gone
    finally:
        observer.listeners.remove(violated)
        if seen in store.subscribers:
            store.subscribers.remove(seen)
    return response


def _since(store, last):
    """What a viewer missed that has seen everything up to an event."""
    if not last:
        return ""
    reset = f"id: {store.version}\nevent: Reset\ndata: {{}}\n\n"
    if not last.isdigit() or int(last) < store.compacted:
        return reset
    kept = [changes for resource, changes in store.history.items() if resource.plural in WATCHED]
    if any(len(changes) == changes.maxlen and int(last) < changes[0].version for changes in kept):
        return reset
    missed = heapq.merge(*kept, key=lambda change: change.version)
    return "".join(filter(None, (message(change) for change in missed if change.version > int(last))))


def message(change):
    """One event, or None when nothing changed that a viewer shows (heartbeats)."""
    if change.resource.plural not in WATCHED:
        return None
    shown = summary(change.resource.plural, change.object)
    if change.type == "MODIFIED" and shown == summary(change.resource.plural, change.old):
        return None
    head = {"type": change.type, "kind": change.resource.kind, "actor": change.actor}
    return f"id: {change.version}\nevent: {change.resource.kind}\ndata: {json.dumps({**head, **shown})}\n\n"


def summary(plural, obj):
    """The parts of an object that a viewer shows."""
    found = {"namespace": obj["metadata"].get("namespace", ""), "name": obj["metadata"]["name"]}
    if plural == "nodes":
        return {**found, **node_state(obj)}
    if plural == "pods":
        return {
            **found,
            "node": obj["spec"].get("nodeName", ""),
            "phase": (obj.get("status") or {}).get("phase"),
            "ready": condition(obj, "Ready"),
            "terminating": is_terminating(obj),
        }
    if plural == "poddisruptionbudgets":
        return {**found, **budget_state(obj)}
    if plural == "noderecords":
        spec = obj.get("spec") or {}
        released = ((obj.get("status") or {}).get("release") or {}).get("at", "")
        return {
            **found,
            "node": (spec.get("node") or {}).get("name", ""),
            "record": spec.get("kind", ""),
            "verdict": spec.get("verdict", ""),
            "released": released,
        }
    if plural == "jobs":
        status = obj.get("status") or {}
        return {**found, **{key: status.get(key, 0) for key in ("active", "succeeded", "failed")}}
    driver = (obj.get("spec") or {}).get("driver") or {}
    return {**found, "driver": driver.get("version", ""), "state": (obj.get("status") or {}).get("state", "")}


def node_state(node):
    labels, spec = node["metadata"].get("labels") or {}, node.get("spec") or {}
    return {
        "ready": condition(node, "Ready"),
        "schedulable": not spec.get("unschedulable"),
        "taints": [f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in spec.get("taints") or []],
        "holders": holders(node),
        "upgrade_state": labels.get("nvidia.com/gpu-driver-upgrade-state", ""),
        "driver": labels.get("nvidia.com/cuda.driver-version.full", ""),
        "qualification": labels.get("lifecycle.gpuops.io/qualification", ""),
        "stage": labels.get("lifecycle.gpuops.io/stage", ""),
    }


def budget_state(budget):
    status = budget.get("status") or {}
    return {
        "allowed": status.get("disruptionsAllowed", 0),
        "healthy": status.get("currentHealthy", 0),
        "desired": status.get("desiredHealthy", 0),
    }
