# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refusals, worded as Kubernetes 1.36 words them (held to recorded answers by tests/contract)."""

from __future__ import annotations


class ApiError(Exception):
    """One Status answer. `text` is set for the few answers that are plain text."""

    def __init__(self, code, reason, message, retry_after=None, causes=None, details=None, text=None):
        super().__init__(message)
        self.code, self.retry_after, self.text = code, retry_after, text
        found = dict(details or {})
        if causes:
            found["causes"] = [dict(zip(("reason", "message", "field"), cause)) for cause in causes]
        if retry_after:
            found["retryAfterSeconds"] = retry_after
        self.body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
        if reason:
            self.body["reason"] = reason
        if found or details is not None:
            self.body["details"] = found
        self.body["code"] = code


def details(resource, name, kind=None):
    found = {"name": name} if name else {}
    if resource.group:
        found["group"] = resource.group
    found["kind"] = kind or resource.plural
    return found


def not_found(resource, name):
    return ApiError(404, "NotFound", f'{resource.full_name} "{name}" not found', details=details(resource, name))


def unknown_path():
    return ApiError(404, "", "404 page not found", text="404 page not found\n")


def unknown_resource():
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed():
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
    )


def bad_request(message):
    return ApiError(400, "BadRequest", message)


def wrong_kind(body, resource):
    """A body of another kind than its path."""
    version = (body.get("apiVersion") or "").rpartition("/")[2]
    internal = "core" if not resource.group else resource.group.split(".")[0]
    said = f'{body["kind"]} in version "{body.get("apiVersion")}" cannot be handled as a {resource.kind}'
    return bad_request(
        f"{said}: converting ({version}.{body['kind']}) to ({internal}.{resource.kind}): unknown conversion"
    )


def unsupported_media_type(accepted):
    text = "the body of the request was in an unknown format - accepted media types include: "
    return ApiError(415, "UnsupportedMediaType", text + ", ".join(accepted))


def options_invalid(kind, reason, field, text):
    """422 for a query parameter, as ListOptions or PatchOptions."""
    found = {"group": "meta.k8s.io", "kind": kind}
    message = f'{kind}.meta.k8s.io "" is invalid: {field}: {text}'
    return ApiError(422, "Invalid", message, causes=[(reason, text, field)], details=found)


def conflict(resource, name):
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.full_name} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again",
        details=details(resource, name),
    )


def already_exists(resource, name):
    message = f'{resource.full_name} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=details(resource, name))


def precondition(resource, name, what, given, recorded):
    end = "deleted and then recreated" if what == "UID" else "modified"
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.full_kind} "{name}": the {what} in the precondition ({given}) does '
        f"not match the {what} in record ({recorded}). The object might have been {end}",
        details=details(resource, name, resource.kind),
    )


def invalid(resource, name, causes):
    """422; causes: list of (reason, field, text)."""
    texts = [f"{field}: {text}" for _reason, field, text in causes]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(
        422,
        "Invalid",
        f'{resource.full_kind} "{name}" is invalid: {joined}',
        causes=[(reason, text, field) for reason, field, text in causes],
        details=details(resource, name, resource.kind),
    )


def forbidden(user, verb, resource, namespace=None, name=None):
    scope = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
    quoted = f' "{name}"' if name else ""
    return ApiError(
        403,
        "Forbidden",
        f'{resource.full_name}{quoted} is forbidden: User "{user}" cannot {verb} resource "{resource.plural}" '
        f'in API group "{resource.group}"{scope}',
        details=details(resource, name) if name else {"kind": resource.plural},
    )
