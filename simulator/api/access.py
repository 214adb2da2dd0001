# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may do what: bearer tokens with rules, errors on demand, and the reviews kubectl asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
from aiohttp import web

from simulator.api import bodies
from simulator.errors import ApiError, forbidden

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass
class User:
    """rules: None for everything, else a list of (verbs, resources) with "*" allowed; resources like "pods/eviction"."""

    name: str
    rules: list | None = None

    def may(self, verb, resource):
        if self.rules is None:
            return True
        return any(
            (verb in verbs or "*" in verbs) and (resource in resources or "*" in resources)
            for verbs, resources in self.rules
        )


@dataclass
class InjectedError:
    """Answer the next `times` fitting requests with `status`. verb and resource may be "*"."""

    verb: str
    resource: str
    status: int
    times: int = 1
    retry_after: int | None = None
    reason: str = ""
    given: int = field(default=0)

    def takes(self, verb, resource):
        if self.given >= self.times or self.verb not in (verb, "*") or self.resource not in (resource, "*"):
            return False
        self.given += 1
        return True


REASONS = {403: "Forbidden", 409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class Access:
    def __init__(self, token):
        self.users = {token: User("system:admin")}
        self.errors = []

    def add_user(self, token, name, rules):
        self.users[token] = User(name, rules)

    def authenticate(self, request):
        scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
        user = self.users.get(token) if scheme == "Bearer" else None
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        impersonated = request.headers.get("Impersonate-User")
        return User(impersonated, []) if impersonated else user

    async def check(self, user, request, resource, namespace, name, subresource, clock):
        verb = VERBS.get(request.method)
        if request.method == "GET":
            watching = request.query.get("watch") in ("1", "true")
            verb = "get" if name else "watch" if watching else "list"
        what = resource.plural + (f"/{subresource}" if subresource else "")
        for error in self.errors:
            if error.takes(verb, what):
                reason = error.reason or REASONS.get(error.status, "InternalError")
                raise ApiError(error.status, reason, "injected by the simulator", error.retry_after)
        if not user.may(verb, what):
            refused = forbidden(user.name, verb, resource, namespace, name)
            if subresource:
                refused.body["message"] = refused.body["message"].replace(
                    f'resource "{resource.plural}"', f'resource "{what}"'
                )
            raise refused

    async def review(self, request, user, store):
        """SelfSubjectAccessReview and SelfSubjectRulesReview."""
        body = await bodies.read(request, {})
        asked = (body.get("spec") or {}).get("resourceAttributes") or {}
        if request.path.endswith("selfsubjectrulesreviews"):
            rules = user.rules if user.rules is not None else [(["*"], ["*"])]
            listed = [{"verbs": list(v), "apiGroups": ["*"], "resources": list(r)} for v, r in rules]
            body["status"] = {"resourceRules": listed, "nonResourceRules": [], "incomplete": False}
        else:
            what = asked.get("resource", "") + (f"/{asked['subresource']}" if asked.get("subresource") else "")
            body["status"] = {"allowed": user.may(asked.get("verb", ""), what)}
        return web.Response(body=orjson.dumps(body), status=201, content_type="application/json")
