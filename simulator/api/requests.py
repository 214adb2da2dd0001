# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who asked for what: counts per user agent, and the last writes."""

from __future__ import annotations

import collections

MUTATING = ("POST", "PUT", "PATCH", "DELETE")


class RequestLog:
    def __init__(self, clock):
        self._clock = clock
        self.reset()

    def reset(self):
        self._by_agent = collections.defaultdict(lambda: {"total": 0, "mutating": 0})
        self.writes = collections.deque(maxlen=2000)

    def count(self, request, agent, status):
        if request.path in ("/healthz", "/readyz", "/livez"):
            return
        counts = self._by_agent[agent]
        counts["total"] += 1
        review = "/authorization.k8s.io/" in request.path
        if request.method in MUTATING and request.query.get("dryRun") != "All" and not review:
            counts["mutating"] += 1
            self.writes.append(
                {
                    "at": self._clock.stamp(),
                    "agent": agent,
                    "verb": request.method,
                    "path": request.path,
                    "status": status,
                }
            )

    def summary(self):
        total = {key: sum(c[key] for c in self._by_agent.values()) for key in ("total", "mutating")}
        return {**total, "by_agent": {agent: dict(counts) for agent, counts in sorted(self._by_agent.items())}}
