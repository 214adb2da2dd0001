# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""/sim: faults, events, state, requests, violations and reset. For this machine only, without a token."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from simulator import events, faults
from simulator.objects import condition, gpu_request, is_terminating


class Control:
    """Serves /sim/* for a Host."""

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
            web.route("*", "/sim{rest:(/.*)?}", self.unknown),
        ]

    @staticmethod
    @web.middleware
    async def loopback_only(request, handler):
        """A page of another origin must not reach this through the user's browser (DNS rebinding, cross-site requests)."""
        if request.path.startswith("/sim"):
            try:
                host = urlsplit(f"//{request.host}").hostname or ""
            except ValueError:
                host = ""
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
        try:
            self._host.inject(body)
        except ValueError as error:
            return _bad(str(error))
        return web.json_response({"injected": body})

    async def clear_faults(self, request):
        node = request.query.get("node")
        known = self._host.cluster.machines
        if node is not None and node not in known:
            return _bad(f"node must be one of {', '.join(sorted(known))}, not {node!r}")
        self._host.clear_faults(node)
        return web.json_response({"cleared": node or "all"})

    async def requests(self, _request):
        return web.json_response(self._host.api.log.summary())

    async def violations(self, _request):
        return web.json_response(self._host.cluster.observer.violations)

    async def reset(self, _request):
        try:
            await self._host.reset()
        except TimeoutError as error:
            return web.json_response({"error": str(error)}, status=500)
        return web.json_response({"reset": self._host.scenario.name})

    async def state(self, _request):
        return web.Response(body=orjson.dumps(snapshot(self._host)), content_type="application/json")

    async def events(self, request):
        return await events.stream(self._host.store, self._host.cluster.observer, request)

    async def unknown(self, request):
        if request.method == "GET" and request.path in ("/sim", "/sim/"):
            return web.json_response({"paths": self._paths()})
        text = f"there is no {request.method} {request.path}; there are {', '.join(self._paths())}"
        return web.json_response({"error": text}, status=404)

    def _paths(self):
        return [f"{route.method} {route.path}" for route in self.routes()[:-1]]


def snapshot(host):
    """Everything at one moment."""
    store, cluster = host.store, host.cluster
    missing = cluster.missing()
    return {
        "scenario": host.scenario.name,
        "speed": host.clock.speed,
        "version": store.version,
        "settled": not missing,
        "missing": missing,
        "nodes": [
            _node(node, cluster.machines.get(node["metadata"]["name"]))
            for node in sorted(store.list("nodes"), key=lambda n: n["metadata"]["name"])
        ],
        "pods": [_pod(pod) for pod in store.list("pods")],
        "budgets": [
            {
                "namespace": b["metadata"]["namespace"],
                "name": b["metadata"]["name"],
                **events.budget_state(b),
            }
            for b in store.list("poddisruptionbudgets")
        ],
        "trainings": {key: vars(training) for key, training in cluster.kubelet.trainings.items()},
        "api_errors": [vars(error) for error in host.api.access.errors],
        "problems": cluster.problems,
        "violations": len(cluster.observer.violations),
    }


def _node(node, machine):
    found = {"name": node["metadata"]["name"], **events.node_state(node), "loaded_driver": None, "gpus": []}
    if machine:
        found.update(loaded_driver=machine.driver, faults=machine.faults, changes=machine.changes)
        found["gpus"] = [
            {"index": g.index, "serial": g.serial, "uuid": g.uuid, "healthy": g.healthy} for g in machine.gpus
        ]
    return found


def _pod(pod):
    return {
        "namespace": pod["metadata"]["namespace"],
        "name": pod["metadata"]["name"],
        "node": pod["spec"].get("nodeName", ""),
        "phase": pod["status"].get("phase"),
        "ready": condition(pod, "Ready"),
        "terminating": is_terminating(pod),
        "gpus": int(gpu_request(pod)),
    }


def _bad(text):
    return web.json_response({"error": text, "kinds": list(faults.KINDS)}, status=400)


def _is_loopback(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
