# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Kubernetes API on plain dicts: one small class, the official client's connection under it.

No model classes: they cost 1.2 CPU-seconds per process and hide fields the installed client does not know.
"""

from __future__ import annotations

import json
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlencode

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import connection, paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import (
    Expired,
    TooManyRequests,
    Unavailable,
    Unreachable,
    from_response,
    from_status,
)

try:
    import urllib3
except ImportError:
    urllib3 = None

USER_AGENT = "gpuops-lifecycle/0.1.0"
PAGE = 500
CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
# A read is repeated after these pauses when the server is away for a moment; what lasts longer is the caller's matter.
READ_PAUSES_S = (0.5, 1, 2, 4)


class Listing(list):
    """Items of one consistent list, and the resourceVersion a watch may go on from."""

    def __init__(self, items, resource_version):
        super().__init__(items)
        self.resource_version = resource_version


class Kube:
    """Requests to one cluster. Not shared between processes; safe to share between threads.

    guard: called before each write; raises when this process must not write any more (its controller died).
    read_only: True in check mode: a write is then a programming error and raises before it is sent.
    """

    def __init__(self, params, guard=None, read_only=False, sleep=time.sleep):
        self._settings = connection.configuration(params)
        self._pool = connection.pool(self._settings)
        self._guard = guard
        self._read_only = read_only
        self._sleep = sleep
        self.requests = 0
        self._server_time = None

    @property
    def host(self):
        return self._settings.host

    def server_time(self):
        """The API server's clock at its last answer, RFC 3339 UTC, to be compared with creation times."""
        if self._server_time is None:
            self.get("/version")
        return parsedate_to_datetime(self._server_time).strftime("%Y-%m-%dT%H:%M:%SZ")

    def get(self, path, **query):
        return self._read(path, query)

    def list(self, path, **query):
        """All items, page by page. A list that outlives its continue token (410) is started again once."""
        for attempt in (1, 2):
            try:
                return self._list_pages(path, query)
            except Expired:
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def _list_pages(self, path, query):
        items, token = [], None
        while True:
            page = self._read(path, {**query, "limit": PAGE, **({"continue": token} if token else {})})
            items += page.get("items") or []
            token = page["metadata"].get("continue")
            if not token:
                return Listing(items, page["metadata"]["resourceVersion"])

    def create(self, path, body, **query):
        return self._write("POST", path, body, query)

    def replace(self, path, body, **query):
        return self._write("PUT", path, body, query)

    def patch(self, path, body, **query):
        """JSON merge patch. `metadata.resourceVersion` in the body makes a stale decision a Conflict."""
        query.setdefault("fieldValidation", "Strict")
        return self._write("PATCH", path, body, query, "application/merge-patch+json")

    def delete(self, path, body=None, **query):
        return self._write("DELETE", path, body, query)

    def evict(self, namespace, name, uid, grace_period_s=None, dry_run=False):
        """Evict exactly this pod. The UID is a last net: a wrong one is refused (409) but spends budget."""
        options = {"preconditions": {"uid": uid}}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        return self._write("POST", paths.pod(namespace, name) + "/eviction", body, {})

    def log(self, namespace, pod, container, **query):
        """A container's log as text (no limit set here: pass limitBytes)."""
        query["container"] = container
        return self._with_pauses("GET", paths.pod(namespace, pod) + "/log", query).decode("utf-8", "replace")

    def watch(self, path, resource_version, timeout_s=300, **query):
        """Yield (type, object) from a version on until the server ends the stream; BOOKMARK included.

        Raises Expired for a 410, also when it comes as an ERROR event inside a 200.
        """
        query.update(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=int(timeout_s),
        )
        response = self._send("GET", path, query, read_timeout_s=READ_TIMEOUT_S + 30)
        rest = b""
        try:
            for chunk in response.stream(65536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise from_status(event["object"], f"WATCH {path}")
                    yield event["type"], event["object"]
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"The watch broke off: {error}", request=f"WATCH {path}") from error
        finally:
            response.close()

    def _read(self, path, query):
        return json.loads(self._with_pauses("GET", path, query))

    def _write(self, method, path, body, query, content_type="application/json"):
        if self._read_only:
            raise AssertionError(f"{method} {path} in check mode")
        return json.loads(self._with_pauses(method, path, query, body, content_type))

    def _with_pauses(self, method, path, query, body=None, content_type="application/json"):
        """Repeats reads that met a passing failure, and writes the server says it has not looked at (throttled)."""
        for pause in (*READ_PAUSES_S, None):
            try:
                return self._send(method, path, query, body, content_type).data
            except TooManyRequests as error:
                if pause is None or error.has_cause("DisruptionBudget") or path.endswith("/eviction"):
                    raise
                self._sleep(min(error.retry_after_s or pause, 30))
            except (Unavailable, Unreachable):
                if pause is None or method != "GET":
                    raise
                self._sleep(pause)
        raise AssertionError("unreachable")

    def _send(self, method, path, query, body=None, content_type="application/json", read_timeout_s=READ_TIMEOUT_S):
        if method != "GET" and self._guard:
            self._guard()
        url = self._settings.host + path + ("?" + urlencode(query) if query else "")
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", **connection.auth_headers(self._settings)}
        if body is not None:
            headers["Content-Type"] = content_type
        self.requests += 1
        request = f"{method} {path}"
        try:
            response = self._pool.request(
                method,
                url,
                body=None if body is None else json.dumps(body),
                headers=headers,
                preload_content=False,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=read_timeout_s),
            )
            self._server_time = response.headers.get("Date") or self._server_time
            if response.status >= 300:
                raise from_response(response.status, response.data, response.headers, request)
            if query.get("watch"):
                return response
            response.data  # noqa: B018 - reads the body here, where its failures are caught
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(
                f"The API server at {self._settings.host} does not answer: {error}", request=request
            ) from error
        return response
