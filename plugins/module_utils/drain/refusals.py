# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a refused eviction means for the drain. Pure.

Told apart by status and cause. Where Kubernetes gives no machine-readable cause (a pod under two budgets, an admission
webhook) its fixed wording is the only sign there is.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import (
    Conflict,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unavailable,
    Unreachable,
)

_WEBHOOK = re.compile(r"(?:admission|calling) webhook \"([^\"]+)\"")
_TWO_BUDGETS = "more than one PodDisruptionBudget"


class Refusal(NamedTuple):
    """kind: budget (exhausted: wait for it), throttle, webhook, transient (ask again soon), misconfigured (somebody must
    mend it), fatal (asking again is useless), gone (no pod of this UID: look again).

    text: the API's words with their request. webhook: its name. unanswered: the eviction may have taken effect.
    """

    kind: str
    text: str
    retry_after_s: Optional[float] = None
    webhook: str = ""
    unanswered: bool = False


GONE = Refusal("gone", "the pod is not there any more")


def of(error):
    """Refusal for the ApiError that an eviction ended in."""
    text, wait = str(error), error.retry_after_s
    webhook = _WEBHOOK.search(error.message or "")
    if webhook:
        return Refusal("webhook", text, wait, webhook=webhook.group(1), unanswered=isinstance(error, Unavailable))
    if isinstance(error, NotFound):
        return Refusal(_not_found(error), text)
    if isinstance(error, Conflict):
        return Refusal("gone" if error.details.get("kind") in ("Pod", "pods") else "transient", text)
    if isinstance(error, TooManyRequests):
        return Refusal(_too_many(error), text, wait)
    if isinstance(error, Forbidden):
        return Refusal(_forbidden(error), text)
    if isinstance(error, Unavailable):
        if _TWO_BUDGETS in error.message:
            return Refusal("misconfigured", text)
        return Refusal("transient", text, wait, unanswered=True)
    if isinstance(error, Unreachable) or error.status == 408:
        return Refusal("transient", text, unanswered=True)
    return Refusal("fatal", text)


def _not_found(error):
    """A missing namespace is no proof that the pod is gone, and an eviction API that is not served never comes."""
    kind = error.details.get("kind")
    if kind == "pods":
        return "gone"
    return "transient" if kind == "namespaces" else "fatal"


def _too_many(error):
    """Exhausted and not-yet-computed budgets have the same message and cause; only the second says when to come back."""
    if not error.has_cause("DisruptionBudget"):
        return "throttle"
    return "budget" if error.retry_after_s is None else "transient"


def _forbidden(error):
    if error.has_cause("NamespaceTerminating"):
        return "transient"
    return "misconfigured" if error.details.get("kind") == "poddisruptionbudget" else "fatal"
