# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `drain_info`: the verdict on each pod of a node, from reads alone. Also what drain's check mode answers."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain import pods, verdicts
from ansible_collections.gpuops.lifecycle.plugins.module_utils.drain.loop import view
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import read_node

# What decides which pods go, and with how much notice: shared with `drain`.
POD_OPTIONS = {
    "node": dict(type="str", required=True),
    "node_uid": dict(type="str"),
    "grace_period_s": dict(type="int"),
    "delete_emptydir_data": dict(type="bool", default=False),
    "evict_unmanaged": dict(type="bool", default=False),
}
ARGUMENT_SPEC = {**CONNECTION_SPEC, **POD_OPTIONS}


def run(task):
    """Returns pods[], verdict, estimate_s, blockers[], table. A missing permission makes things unknown, never free."""
    name = task.params["node"]
    unreadable = []
    node = _allowed(unreadable, "node", lambda: read_node(task, name, task.params["node_uid"]))
    on_node = _allowed(unreadable, "pods", lambda: pods_of_node(task, name))
    pdbs = _allowed(unreadable, "poddisruptionbudgets", lambda: task.kube.list(paths.pdbs()))
    existing = DaemonSets(task)
    now = pods.parse_time(task.kube.server_time())
    assessed = verdicts.assess(on_node or [], pdbs, existing(on_node or []), pod_options(task), now)
    result = plan(assessed, task.params["grace_period_s"])
    if node is None or on_node is None:
        result["verdict"], result["estimate_s"] = "unknown", None
    for what in unreadable:
        result["blockers"].append(
            {
                "pod": "",
                "reason": f"{what} may not be read",
                "remedy": f"get permission to read {what} (kubectl auth can-i --list shows yours)",
            }
        )
    return result


def _allowed(unreadable, what, read):
    """What read() gives, or None and an entry in `unreadable` when permission is missing."""
    try:
        return read()
    except Forbidden:
        unreadable.append(what)
        return None


def plan(assessed, grace_period_s):
    """The result dict for assessments: data, a line per pod, and one blocker per pod that cannot go."""
    rows = [
        {
            **view(one),
            "blocked_by": list(one.blocked_by),
            "sentence": one.sentence,
            "grace_s": pods.grace_s(one.pod, grace_period_s),
            "gpus": pods.gpus(one.pod),
        }
        for one in assessed
    ]
    return {
        "pods": rows,
        "verdict": verdicts.worst(row["verdict"] for row in rows),
        "estimate_s": verdicts.estimate_s(assessed, grace_period_s),
        "blockers": [
            {"pod": pods.label_of(one.pod), "reason": one.sentence, "remedy": one.remedy}
            for one in assessed
            if one.verdict not in verdicts.PASSABLE
        ],
        "table": [f"{pods.label_of(one.pod)} {one.verdict}: {one.sentence}" for one in assessed],
    }


def pod_options(task):
    return {key: task.params[key] for key in ("delete_emptydir_data", "evict_unmanaged")}


def pods_of_node(task, name):
    return task.kube.list(paths.pods(), fieldSelector=f"spec.nodeName={name}")


class DaemonSets:
    """Which DaemonSets exist, read when a pod names one, and again when a pod names one not known yet."""

    def __init__(self, task):
        self._task = task
        self._known = set()
        self._asked = set()

    def __call__(self, found):
        """Set of (namespace, name), or None when they may not be read."""
        named = {
            (pod["metadata"]["namespace"], pods.controller(pod)["name"]) for pod in found if pods.is_daemonset_pod(pod)
        }
        if self._known is not None and named - self._known - self._asked:
            self._read()
            self._asked |= named
        return self._known

    def _read(self):
        try:
            listing = self._task.kube.list(paths.daemonsets())
        except Forbidden:
            self._task.warn(
                "DaemonSets may not be read, so pods whose DaemonSet is gone are taken for ones it manages."
            )
            self._known = None
            return
        self._known = {(ds["metadata"]["namespace"], ds["metadata"]["name"]) for ds in listing}
