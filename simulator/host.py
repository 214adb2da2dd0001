# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One listening simulated cluster: API, controls, and the cluster behind them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets

from aiohttp import web

from simulator.api import tls
from simulator.api.server import ApiServer
from simulator.clock import Clock
from simulator.cluster import Cluster
from simulator.control import Control
from simulator.store import Store

ADDRESS = "127.0.0.1"
STARTING_SPEED = 60


class Host:
    """start(port) listens; settled() waits for the scenario's start state; reset() begins it anew."""

    def __init__(self, scenario, speed=1.0, seed=0):
        self.scenario, self.seed = scenario, seed
        self.speed = speed
        self.clock = Clock(speed)
        self.store = Store(self.clock)
        self.token = secrets.token_urlsafe(24)
        self.api = ApiServer(self.store, self.clock, self.token)
        self.cluster = None
        self.url = None
        self._authority, self._chain, self._key = tls.make_certificates()
        self._runner = None

    async def start(self, port):
        """Raises OSError when the port is taken."""
        self._begin()
        control = Control(self)
        app = web.Application(middlewares=[control.loopback_only], client_max_size=8 * 2**20)
        app.add_routes([*control.routes(), web.get("/sim", self._about), web.route("*", "/{path:.*}", self.api.handle)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, ADDRESS, port, ssl_context=tls.server_context(self._chain, self._key))
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"https://{ADDRESS}:{port}"

    def _begin(self):
        self.cluster = Cluster(self.store, self.clock, self.scenario, self.seed)
        self.cluster.start()

    async def reset(self):
        await self.cluster.stop()
        for subscriber in list(self.store.subscribers):
            subscriber(None)
        self.store.reset()
        self.store.compacted = self.store.version + 1
        self.api.log.reset()
        self.api.access.errors.clear()
        self.api.pages.expire()
        self._begin()
        await self.settled()

    async def settled(self, timeout_s=120):
        """Wait, in fast motion, until the scenario's workloads run. TimeoutError says what is missing."""
        end = asyncio.get_running_loop().time() + timeout_s
        self.clock.speed = max(self.speed, STARTING_SPEED)
        try:
            while not self.cluster.is_settled():
                if asyncio.get_running_loop().time() > end:
                    missing = self.cluster.problems or self.cluster.unsettled()
                    raise TimeoutError(f"the scenario {self.scenario.name} did not come up: {missing}")
                await asyncio.sleep(0.1)
        finally:
            self.clock.speed = self.speed

    def write_kubeconfig(self, path):
        tls.write_kubeconfig(path, self.url, self._authority, self.token)

    def write_ready_file(self, path, kubeconfig):
        beside = f"{path}.{os.getpid()}"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump({"url": self.url, "kubeconfig": os.path.abspath(kubeconfig), "pid": os.getpid()}, file)
        os.replace(beside, path)

    async def stop(self):
        await self.cluster.stop()
        for subscriber in list(self.store.subscribers):
            subscriber(None)
        if self._runner:
            await self._runner.cleanup()

    async def _about(self, _request):
        return web.json_response(
            {"paths": ["/sim/state", "/sim/events", "/sim/requests", "/sim/violations", "/sim/faults", "/sim/reset"]}
        )
