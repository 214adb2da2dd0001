# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong at the Kubernetes API, as types that keep the server's own words.

A refusal is classified by status and cause, never by its message: Kubernetes 1.36 answers the same top message for an
exhausted budget and for one that has not been computed yet.
"""

from __future__ import annotations

import json


class ApiError(Exception):
    """An answer that is not success.

    status: HTTP status, None when no answer came. reason: the Status' machine word ("" where the server gives none, as
    it does for a pod under two budgets). causes: list of (reason, message, field). retry_after_s: seconds or None.
    request: "GET /api/v1/nodes/x", for the sentence a person reads.
    """

    def __init__(self, message, status=None, reason="", causes=(), details=None, retry_after_s=None, request=""):
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = list(causes)
        self.details = details or {}
        self.retry_after_s = retry_after_s
        self.request = request

    def __str__(self):
        where = f" ({self.request}: {self.status or 'no answer'})" if self.request else ""
        extra = "; ".join(text for _reason, text, _field in self.causes if text and text not in self.message)
        return f"{self.message}{': ' + extra if extra else ''}{where}"

    def has_cause(self, reason):
        return any(found == reason for found, _message, _field in self.causes)


class NotFound(ApiError):
    """404 about an object or a resource type that is not served."""


class Conflict(ApiError):
    """409: written on a version that is no longer the newest, a wrong UID, or a name that exists (AlreadyExists)."""


class Forbidden(ApiError):
    """403: no permission, or a namespace that is being deleted."""


class Unauthorized(ApiError):
    """401: the credentials are not accepted."""


class TooManyRequests(ApiError):
    """429: an exhausted disruption budget (cause DisruptionBudget) or a throttled client."""


class Invalid(ApiError):
    """400, 415, 422: the request itself is wrong."""


class Expired(ApiError):
    """410: a resourceVersion or continue token the server has forgotten."""


class Unavailable(ApiError):
    """5xx. A refusal for two budgets on one pod is one too: its message says so."""


class Unreachable(ApiError):
    """No answer: connection, TLS, proxy or time-out."""


_BY_STATUS = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    415: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


def from_status(body, request="", status=None, retry_after=None):
    """ApiError of the fitting class for a Kubernetes Status object (a dict)."""
    code = status or body.get("code")
    details = body.get("details") or {}
    if retry_after is None:
        retry_after = details.get("retryAfterSeconds")
    cls = _BY_STATUS.get(code, Unavailable if (code or 0) >= 500 else ApiError)
    causes = [(c.get("reason", ""), c.get("message", ""), c.get("field", "")) for c in details.get("causes") or []]
    message = body.get("message") or f"the server answered {code}"
    return cls(message, code, body.get("reason", ""), causes, details, retry_after, request)


def from_response(status, data, headers, request):
    """ApiError for an HTTP answer; data is the body as bytes, which is not always a Status (unknown paths: text)."""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {"message": (data or b"").decode("utf-8", "replace").strip()[:500]}
    seconds = headers.get("Retry-After")
    return from_status(body, request, status, int(seconds) if (seconds or "").isdigit() else None)
