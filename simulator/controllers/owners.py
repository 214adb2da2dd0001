# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controllers of workloads share: following what they own, pods of a template, hashes, whole or percent."""

from __future__ import annotations

import hashlib
import math

import orjson

from simulator.controllers.base import Controller
from simulator.objects import clone, controller_of, is_finished, is_terminating, key_of, owner_reference

# k8s.io/apimachinery/pkg/util/rand: no vowels, no digits that look like letters.
SAFE = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template):
    """Ten safe characters that change with any change of a pod template."""
    digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(SAFE[byte % len(SAFE)] for byte in digest[:10])


def whole_or_percent(value, total, up):
    """An IntOrString as a number; percentages of total are rounded up or down."""
    if not isinstance(value, str):
        return value
    share = int(value.rstrip("%")) * total / 100
    return math.ceil(share) if up else math.floor(share)


def pod_from(workload, template=None, **metadata):
    pod = clone(template or workload["spec"]["template"])
    pod.setdefault("metadata", {}).update(ownerReferences=[owner_reference(workload)], **metadata)
    return pod


def is_active(pod):
    return not is_terminating(pod) and not is_finished(pod)


class OwnerController(Controller):
    """Marks the workload of a kind when it, or something it owns, changes."""

    plural = ""
    kind = ""

    def seen(self, change):
        obj = change.object
        if change.resource.plural == self.plural:
            self.mark(key_of(obj))
        ref = controller_of(obj)
        if ref and ref["kind"] == self.kind:
            self.mark((obj["metadata"].get("namespace", ""), ref["name"]))

    def living(self, key):
        """The workload, unless it is gone or going."""
        obj = self.store.get(self.plural, key[1], key[0])
        return None if obj is None or is_terminating(obj) else obj

    def status(self, key, edit):
        self.store.mutate(self.plural, key[1], edit, key[0], status=True)
