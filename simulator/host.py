# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One listening simulated cluster: API, controls, and the cluster behind them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets

from aiohttp import web

from simulator import faults
from simulator.api import tls
from simulator.api.server import ApiServer
from simulator.clock import Clock
from simulator.cluster import Cluster
from simulator.control import Control
from simulator.store import Store

ADDRESS = "127.0.0.1"
SETTLE_S = 120


class Host:
    """start(port) listens; settled() waits for the scenario's start state; reset() begins it anew."""

    def __init__(self, scenario, speed=1.0, seed=0):
        self.scenario, self.seed = scenario, seed
        self.clock = Clock(speed)
        self.store = Store(self.clock)
        self.token = secrets.token_urlsafe(24)
        self.api = ApiServer(self.store, self.clock, self.token)
        self.cluster = None
        self.url = None
        self._authority, self._chain, self._key = tls.make_certificates()
        self._runner = None
        self._resetting = asyncio.Lock()

    async def start(self, port):
        """Raises BadScenario when the scenario cannot be filled in, OSError when the port is taken."""
        self.cluster = Cluster(self.store, self.clock, self.scenario, self.seed)
        control = Control(self)
        app = web.Application(middlewares=[control.loopback_only], client_max_size=8 * 2**20)
        app.add_routes([*control.routes(), web.route("*", "/{path:.*}", self._answer)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, ADDRESS, port, ssl_context=tls.server_context(self._chain, self._key))
        await site.start()
        self.cluster.start()
        self.url = f"https://{ADDRESS}:{self._runner.addresses[0][1]}"

    async def _answer(self, request):
        if request.path == "/" and not request.headers.get("Authorization"):
            text = (
                f"Simulated cluster {self.scenario.name}. Its state: {self.url}/sim/state; what else there is: /sim\n"
            )
            return web.Response(text=text)
        return await self.api.handle(request)

    async def settled(self, timeout_s=SETTLE_S):
        """Wait until the scenario's workloads run, then set its faults. TimeoutError says what is missing."""
        end = asyncio.get_running_loop().time() + timeout_s
        while missing := self.cluster.missing():
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(
                    f"The scenario {self.scenario.name} did not come to rest within {timeout_s} s: "
                    f"{'; '.join([*self.cluster.problems, *missing][:5])}."
                )
            await asyncio.sleep(0.1)
        for fault in self.scenario.faults:
            self.inject(fault)

    def inject(self, fault):
        """A fault as in POST /sim/faults. Raises ValueError."""
        machines = self.cluster.machines
        faults.checked(fault, {name: len(machine.gpus) for name, machine in machines.items()})
        faults.inject(fault, self.store, self.api.access, machines)

    def clear_faults(self, node=None):
        faults.clear(self.store, self.api.access, self.cluster.machines, node)
        for name in self.cluster.machines if node is None else (node,):
            self.cluster.kubelet.beat_now(name)

    async def reset(self):
        """The start state again, under the same address, token and authority. Watches and event streams end."""
        async with self._resetting:
            await self._end_cluster()
            # A new store, so that nothing which still runs for the old cluster can write to the new one.
            self.store = self.api.store = Store(self.clock, self.store.version + 1)
            self.api.log.reset()
            self.api.access.errors.clear()
            self.api.pages.expire()
            self.cluster = Cluster(self.store, self.clock, self.scenario, self.seed)
            self.cluster.start()
            await self.settled()

    async def _end_cluster(self):
        await self.cluster.stop()
        for subscriber in list(self.store.subscribers):
            subscriber(None)

    def write_kubeconfig(self, path):
        tls.write_kubeconfig(path, self.url, self._authority, self.token)

    def write_ready_file(self, path, kubeconfig):
        beside = f"{path}.{os.getpid()}"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump({"url": self.url, "kubeconfig": os.path.abspath(kubeconfig), "pid": os.getpid()}, file)
        os.replace(beside, path)

    async def stop(self):
        if self.cluster:
            await self._end_cluster()
        if self._runner:
            await self._runner.cleanup()
