# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A live copy of some objects: list once, then watch, and wake whoever waits at each change.

What a re-list no longer shows counts as deleted: an informer that forgets this keeps ghosts (the API server ends the
watches of slow clients).
"""

from __future__ import annotations

import threading
import time

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import (
    ApiError,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Unauthorized,
)

# Waiting for the server cures none of these.
LASTING = (Forbidden, Unauthorized, Invalid, NotFound)


class Mirror:
    """Copies of several lists under one condition.

    with Mirror(kube).add("pods", paths.pods(), fieldSelector="spec.nodeName=a") as mirror:
        mirror.wait_for(lambda: not mirror.objects("pods"), timeout_s=600)
    """

    def __init__(self, kube, sleep=time.sleep, monotonic=time.monotonic):
        self._kube = kube
        self._sleep = sleep
        self._monotonic = monotonic
        self._sources = {}
        self._objects = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._error = None
        self._version = 0

    def add(self, name, path, **query):
        """Lists at once (so errors surface here); the watch starts with the context."""
        listing = self._kube.list(path, **query)
        self._sources[name] = (path, query, listing.resource_version)
        self._objects[name] = {item["metadata"]["uid"]: item for item in listing}
        return self

    def __enter__(self):
        for name in self._sources:
            threading.Thread(target=self._follow, args=(name,), name=f"watch-{name}", daemon=True).start()
        return self

    def __exit__(self, *_exception):
        self._stopped = True

    def objects(self, name):
        """Newest known objects of one source by UID. A copy: safe to walk."""
        with self._changed:
            return dict(self._objects[name])

    def wait_for(self, predicate, timeout_s, tick_s=None, on_tick=None):
        """Block until predicate() is true; False when timeout_s ran out first.

        The predicate is asked again at each change of any source, and each tick_s, after on_tick() (progress lines,
        renewing a lock). Raises the error that ended a watch for good.
        """
        deadline = self._monotonic() + timeout_s
        next_tick = self._monotonic() + tick_s if tick_s else None
        while True:
            with self._changed:
                seen = self._version
            if self._error:
                raise self._error
            if predicate():
                return True
            now = self._monotonic()
            if now >= deadline:
                return False
            if next_tick is not None and now >= next_tick:
                on_tick()
                next_tick = now + tick_s
            until = deadline if next_tick is None else min(deadline, next_tick)
            with self._changed:
                if self._version == seen:
                    self._changed.wait(max(0.0, until - now))

    def _publish(self, name, change):
        with self._changed:
            change(self._objects[name])
            self._version += 1
            self._changed.notify_all()

    def _follow(self, name):
        path, query, version = self._sources[name]
        pause = 0.2
        while not self._stopped:
            try:
                if version is None:
                    listing = self._kube.list(path, **query)
                    fresh = {item["metadata"]["uid"]: item for item in listing}
                    self._publish(name, lambda objects, fresh=fresh: (objects.clear(), objects.update(fresh)))
                    version = listing.resource_version
                for kind, item in self._kube.watch(path, version, **query):
                    if self._stopped:
                        return None
                    version = item["metadata"]["resourceVersion"]
                    self._apply(name, kind, item)
                    pause = 0.2
            except Expired:
                version = None
            except ApiError as error:
                if isinstance(error, LASTING):
                    return self._end(error)
                self._sleep(pause)
                pause = min(pause * 2, 10)
            except Exception as error:  # a bug here must wake the waiter, not leave it waiting
                return self._end(error)
        return None

    def _end(self, error):
        with self._changed:
            self._error = error
            self._version += 1
            self._changed.notify_all()

    def _apply(self, name, kind, item):
        uid = item["metadata"].get("uid")
        if kind in ("ADDED", "MODIFIED"):
            self._publish(name, lambda objects: objects.__setitem__(uid, item))
        elif kind == "DELETED":
            self._publish(name, lambda objects: objects.pop(uid, None))
