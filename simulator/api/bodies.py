# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Request bodies: JSON, YAML or protobuf, into plain dicts."""

from __future__ import annotations

import orjson
import yaml

from simulator.api import protobuf
from simulator.api.decoding import json_error
from simulator.errors import bad_request, unsupported_media_type

JSON = "application/json"


async def read(request, default=None, kind="Object"):
    """The body, or `default` when there is none. Raises ApiError 400 or 415; `kind` is named in the 400."""
    raw = await request.read()
    if not raw and default is not None:
        return default
    sent = request.content_type
    if sent == protobuf.CONTENT_TYPE:
        try:
            return protobuf.decode(raw)
        except protobuf.Malformed as error:
            raise bad_request(f"the protobuf body cannot be read: {error}") from error
    if "yaml" in sent:
        return yaml.safe_load(raw)
    if sent != JSON and not sent.endswith("+json") and sent != "application/octet-stream":
        raise unsupported_media_type([JSON, "application/yaml", protobuf.CONTENT_TYPE])
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        text = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: "
        shown = raw[:100].decode(errors="replace")
        raise bad_request(f"{text}{json_error(raw)} ({shown})") from error
