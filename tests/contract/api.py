# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bare HTTP client: the contract tests look at answers, not at what a client library makes of them."""

from __future__ import annotations

import base64
import json
import ssl
import time
from dataclasses import dataclass

import urllib3
import yaml

JSON = "application/json"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
NO_UID = "00000000-0000-0000-0000-000000000000"


@dataclass
class Answer:
    """body: parsed JSON, a list of events for a watch, else text."""

    status: int
    body: object
    headers: dict

    @property
    def reason(self):
        return self.body.get("reason") if isinstance(self.body, dict) else None

    @property
    def details(self):
        return self.body.get("details") or {}

    @property
    def items(self):
        assert self.status == 200, self.body
        return self.body["items"]


class Api:
    def __init__(self, kubeconfig):
        with open(kubeconfig, encoding="utf-8") as file:
            config = yaml.safe_load(file)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0].get("user") or {}
        context = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
        if "certificate-authority-data" in cluster:
            context.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self._url, self._token = cluster["server"], user.get("token", "")
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False, timeout=30)

    def call(self, method, path, body=None, content_type=JSON, accept=JSON, headers=None):
        """body: a str is sent as it is, anything else as JSON."""
        sent = {"Accept": accept, "Authorization": f"Bearer {self._token}", **(headers or {})}
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        if data is not None:
            sent["Content-Type"] = content_type
        response = self._pool.request(method, self._url + path, body=data, headers=sent)
        parsed = _events if "watch=" in path and response.status == 200 else _parsed
        return Answer(response.status, parsed(response.data.decode()), dict(response.headers))

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body, **more):
        return self.call("POST", path, body, **more)

    def merge(self, path, body):
        return self.call("PATCH", path, body, MERGE)

    def delete(self, path, body=None):
        return self.call("DELETE", path, body)

    def evict(self, pod, **options):
        """options become the Eviction's deleteOptions."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        if options:
            body["deleteOptions"] = options
        return self.post(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)


def _events(text):
    return [json.loads(line) for line in text.splitlines()]


def _parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def until(check, seconds=30):
    """What `check` returns once it is true; the last value when that never happens."""
    end = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def is_true(obj, condition):
    found = (obj.get("status") or {}).get("conditions") or []
    return any(c["type"] == condition and c["status"] == "True" for c in found)
