# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""/sim: faults, events, state, requests, violations and reset. For this machine only, without a token."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from simulator.api.access import InjectedError
from simulator.nodes.gpus import FAULTS
from simulator.objects import condition, gpu_request, is_terminating
from simulator.observer.shapes import holders

API_ERROR_FIELDS = {"verb": str, "resource": str, "status": int, "times": int, "retry_after": int}
FINALIZER = "simulator.gpuops.io/stuck"
KINDS = (*FAULTS, "api_error", "stuck_finalizer")
WATCHED = ("nodes", "pods", "poddisruptionbudgets", "noderecords", "jobs", "clusterpolicies")


class Control:
    """Serves /sim/* for a host that has .store, .api and .cluster and can reset()."""

    def __init__(self, host):
        self._host = host

    def routes(self):
        return [
            web.post("/sim/faults", self.add_fault),
            web.delete("/sim/faults", self.clear_faults),
            web.get("/sim/events", self.events),
            web.get("/sim/state", self.state),
            web.get("/sim/requests", self.requests),
            web.get("/sim/violations", self.violations),
            web.post("/sim/reset", self.reset),
        ]

    @staticmethod
    @web.middleware
    async def loopback_only(request, handler):
        """A page of another origin must not reach this through the user's browser (DNS rebinding, cross-site requests)."""
        if request.path.startswith("/sim"):
            host = urlsplit(f"//{request.host}").hostname or ""
            origin = request.headers.get("Origin")
            foreign = origin and urlsplit(origin).netloc != request.host
            if not _is_loopback(host) or not _is_loopback(request.remote or "") or foreign:
                return web.json_response({"error": "/sim answers on this machine only"}, status=403)
        return await handler(request)

    async def add_fault(self, request):
        try:
            body = orjson.loads(await request.read())
        except orjson.JSONDecodeError as error:
            return _bad(f"the body is not JSON: {error}")
        if not isinstance(body, dict) or body.get("kind") not in KINDS:
            return _bad(f"kind must be one of {', '.join(KINDS)}")
        try:
            if body["kind"] == "api_error":
                self._host.api.access.errors.append(_api_error(body))
            elif body["kind"] == "stuck_finalizer":
                self._stick(body)
            else:
                self._host.cluster.inject(body)
        except KeyError as error:
            nodes = ", ".join(sorted(self._host.cluster.machines))
            return _bad(f"there is no {error}; nodes are {nodes}")
        except (TypeError, ValueError) as error:
            return _bad(str(error))
        return web.json_response({"injected": body})

    def _stick(self, body):
        """A finalizer nobody removes, on one pod ({namespace, pod}) or on the workload pods of a node ({node})."""
        store = self._host.store
        if "node" in body:
            self._host.cluster.machines[body["node"]]
            chosen = [p for p in store.pods_on(body["node"]) if gpu_request(p)]
        else:
            chosen = [p for p in (store.get("pods", body.get("pod", ""), body.get("namespace", "default")),) if p]
        if not chosen:
            raise ValueError("no such pod: give {namespace, pod}, or {node} with GPU pods on it")
        for pod in chosen:
            meta = pod["metadata"]
            edit = lambda o: o["metadata"].setdefault("finalizers", []).append(FINALIZER)  # noqa: E731
            with store.acting("scenario"):
                store.mutate("pods", meta["name"], edit, meta["namespace"])

    async def clear_faults(self, request):
        wanted = request.query.get("node")
        for name, machine in self._host.cluster.machines.items():
            if wanted in (None, name):
                machine.clear()
                self._host.cluster.kubelet.beat_now(name)
        if wanted is None:
            self._host.api.access.errors.clear()
        return web.json_response({"cleared": wanted or "all"})

    async def requests(self, _request):
        return web.json_response(self._host.api.log.summary())

    async def violations(self, _request):
        return web.json_response(self._host.cluster.observer.violations)

    async def reset(self, _request):
        await self._host.reset()
        return web.json_response({"reset": self._host.cluster.scenario.name})

    async def state(self, _request):
        return web.Response(body=orjson.dumps(snapshot(self._host)), content_type="application/json")

    async def events(self, request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        queue = asyncio.Queue()
        store = self._host.store

        def seen(change):
            if change is None or change.resource.plural in WATCHED:
                queue.put_nowait(change)

        await response.prepare(request)
        store.subscribe(seen)
        try:
            await response.write(b"retry: 1000\n\n")
            while (change := await queue.get()) is not None:
                text = json.dumps(summary(change))
                await response.write(f"id: {change.version}\nevent: {change.resource.kind}\ndata: {text}\n\n".encode())
        except (ConnectionResetError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            if seen in store.subscribers:
                store.subscribers.remove(seen)
        return response


def summary(change):
    """One event, small enough to stream: what changed, by whom, and the parts a viewer shows."""
    obj = change.object
    found = {
        "type": change.type,
        "kind": change.resource.kind,
        "namespace": obj["metadata"].get("namespace", ""),
        "name": obj["metadata"]["name"],
        "actor": change.actor,
    }
    if change.resource.plural == "nodes":
        found.update(node_state(obj))
    elif change.resource.plural == "pods":
        found.update(
            phase=obj["status"].get("phase"), node=obj["spec"].get("nodeName", ""), terminating=is_terminating(obj)
        )
    return found


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


def snapshot(host):
    """Everything at one moment."""
    store, cluster = host.store, host.cluster
    nodes = []
    for node in sorted(store.list("nodes"), key=lambda n: n["metadata"]["name"]):
        name = node["metadata"]["name"]
        machine = cluster.machines.get(name)
        found = {"name": name, **node_state(node), "loaded_driver": machine.driver if machine else None, "gpus": []}
        if machine:
            found["gpus"] = [
                {"index": g.index, "serial": g.serial, "uuid": g.uuid, "healthy": g.healthy} for g in machine.gpus
            ]
            found["faults"], found["changes"] = machine.faults, machine.changes
        nodes.append(found)
    pods = [
        {
            "namespace": p["metadata"]["namespace"],
            "name": p["metadata"]["name"],
            "node": p["spec"].get("nodeName", ""),
            "phase": p["status"].get("phase"),
            "ready": condition(p, "Ready"),
            "terminating": is_terminating(p),
            "gpus": int(gpu_request(p)),
        }
        for p in store.list("pods")
    ]
    budgets = [
        {
            "namespace": b["metadata"]["namespace"],
            "name": b["metadata"]["name"],
            "allowed": b["status"].get("disruptionsAllowed", 0),
            "healthy": b["status"].get("currentHealthy", 0),
            "desired": b["status"].get("desiredHealthy", 0),
        }
        for b in store.list("poddisruptionbudgets")
    ]
    return {
        "scenario": cluster.scenario.name,
        "speed": host.clock.speed,
        "settled": cluster.is_settled(),
        "nodes": nodes,
        "pods": pods,
        "budgets": budgets,
        "trainings": {key: vars(training) for key, training in cluster.kubelet.trainings.items()},
        "problems": cluster.problems,
        "violations": len(cluster.observer.violations),
    }


def _api_error(body):
    for field, value in body.items():
        if field != "kind" and not isinstance(value, API_ERROR_FIELDS.get(field, ())):
            raise ValueError(f"api_error takes {', '.join(API_ERROR_FIELDS)}, not {field}={value!r}")
    for field in ("verb", "resource", "status"):
        if field not in body:
            raise ValueError(f"api_error needs {field}")
    if not 400 <= body["status"] <= 599:
        raise ValueError("api_error: status must be between 400 and 599")
    return InjectedError(**{k: v for k, v in body.items() if k != "kind"})


def _bad(text):
    return web.json_response({"error": text}, status=400)


def _is_loopback(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
