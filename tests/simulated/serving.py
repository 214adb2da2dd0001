# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated cluster in a process of its own, and what tests ask of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.contract.api import Api, until

ROOT = Path(__file__).resolve().parents[2]
GPU_NODES = ("gpu-node-a", "gpu-node-b", "gpu-node-c", "gpu-node-d")


@dataclass
class Event:
    id: str
    event: str
    data: dict


class Events:
    """One stream of /sim/events."""

    def __init__(self, response):
        self._response = response
        assert response.readline() == b"retry: 1000\n"

    def until(self, check):
        """The first event that passes, None when the stream ends before."""
        fields = {}
        while line := self._response.readline().decode():
            key, _colon, value = line.rstrip("\n").partition(": ")
            if key:
                fields[key] = value
            elif "data" in fields:
                found = Event(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
                fields = {}
                if check(found):
                    return found
        return None


class SimulatedCluster:
    """url, kubeconfig (a path), api (a bare Kubernetes client), get/post/delete for /sim, environment for commands."""

    def __init__(self, url, kubeconfig, process, log):
        self.url, self.kubeconfig, self.process, self._log = url, kubeconfig, process, log
        self.api = Api(kubeconfig)

    @property
    def environment(self):
        path = str(self.kubeconfig)
        return {**os.environ, "KUBECONFIG": path, "K8S_AUTH_KUBECONFIG": path, "GPUOPS_SIMULATOR_URL": self.url}

    @property
    def output(self):
        return self._log.read_text(encoding="utf-8")

    def call(self, method, path, body=None, headers=None):
        """(status, parsed JSON or text) of a request without a token, as /sim takes it."""
        answer = self.api.call(method, path, body, headers={"Authorization": "", **(headers or {})})
        return answer.status, answer.body

    def get(self, path):
        status, found = self.call("GET", path)
        assert status == 200, found
        return found

    def post(self, path, body=None):
        status, found = self.call("POST", path, body)
        assert status == 200, found
        return found

    def delete(self, path):
        status, found = self.call("DELETE", path)
        assert status == 200, found
        return found

    def break_(self, kind, node=None, **fields):
        """Inject a fault."""
        return self.post("/sim/faults", {"kind": kind, **({"node": node} if node else {}), **fields})

    @contextlib.contextmanager
    def events(self, last=None):
        """Server-sent events, from now on or after the id `last`."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(self.url.partition("//")[2], context=context, timeout=30)
        connection.request("GET", "/sim/events", headers={"Last-Event-ID": last} if last else {})
        try:
            yield Events(connection.getresponse())
        finally:
            connection.close()

    def reset(self):
        self.post("/sim/reset")

    @property
    def violations(self):
        return self.get("/sim/violations")

    def node(self, name):
        """A Node as the API has it."""
        answer = self.api.get(f"/api/v1/nodes/{name}")
        assert answer.status == 200, answer.body
        return answer.body

    def seen(self, name):
        """A node as /sim/state tells of it, machine included."""
        return next(node for node in self.get("/sim/state")["nodes"] if node["name"] == name)

    def pods_on(self, name):
        return self.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}").items

    def until(self, check, seconds=30):
        return until(check, seconds)


@contextlib.contextmanager
def serving(folder, scenario="four-h100", speed=20, seed=0):
    """Serve a scenario; on the way out the process is ended, and must not have failed inside."""
    ready, log = folder / "ready.json", folder / "log"
    command = [
        sys.executable, "-m", "simulator", "serve", "--port", "0", "--speed", str(speed), "--seed", str(seed),
        "--no-page", "--scenario", str(scenario), "--kubeconfig", str(folder / "kubeconfig"), "--ready-file", str(ready),
    ]  # fmt: skip
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
    try:
        up = until(lambda: ready.exists() or process.poll() is not None, 120)
        assert up and process.poll() is None, log.read_text(encoding="utf-8")
        url = json.loads(ready.read_text(encoding="utf-8"))["url"]
        yield SimulatedCluster(url, folder / "kubeconfig", process, log)
    finally:
        process.terminate()
        process.wait(20)
    said = log.read_text(encoding="utf-8")
    assert "Traceback" not in said, said
