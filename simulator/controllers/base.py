# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shape of every controller: changes mark keys, one loop brings each marked key in order."""

from __future__ import annotations

import asyncio
import sys
import traceback

from simulator.errors import ApiError


class Controller:
    """Subclasses implement `seen(change)` (call `self.mark(key)`) and `reconcile(key)`.

    One object that cannot be reconciled does not end the controller: the problem is printed and kept in `problems`.
    """

    name = "controller"

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock
        self.problems = []
        self._marked = {}
        self._wake = asyncio.Event()
        store.subscribe(self._seen)

    def _seen(self, change):
        if change is not None:
            self.seen(change)

    def seen(self, change):
        raise NotImplementedError

    def reconcile(self, key):
        raise NotImplementedError

    def mark(self, key):
        self._marked[key] = None
        self._wake.set()

    def mark_later(self, seconds, key):
        self.clock.call_later(seconds, self.mark, key)

    async def run(self):
        while True:
            await self._wake.wait()
            self._wake.clear()
            done = 0
            while self._marked:
                key = next(iter(self._marked))
                del self._marked[key]
                self._one(key)
                done += 1
                if done % 50 == 0:
                    await asyncio.sleep(0)

    def _one(self, key):
        with self.store.acting(f"controller/{self.name}"):
            try:
                self.reconcile(key)
            except ApiError as error:
                if error.code not in (404, 409) and not _namespace_goes(error):
                    self._problem(key, error)
            except Exception as error:
                traceback.print_exc()
                self._problem(key, error)

    def _problem(self, key, error):
        text = f"{self.name} {key}: {error!r}"
        self.problems.append(text)
        print(text, file=sys.stderr, flush=True)


def _namespace_goes(error):
    """New content in a namespace that is being deleted: the real controllers ignore this refusal too."""
    causes = (error.body.get("details") or {}).get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
