# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operation `node_ready`: wait until every readiness check of a node holds."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import paths
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.connection import CONNECTION_SPEC
from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.mirror import Mirror
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import keys, operands, readiness
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node.update import read_node
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed

ARGUMENT_SPEC = {
    **CONNECTION_SPEC,
    "node": dict(type="str", required=True),
    "node_uid": dict(type="str"),
    "expected_gpus": dict(type="int"),
    "driver_version": dict(type="str"),
    "after": dict(type="str"),
    "operator_namespace": dict(type="str", default=keys.OPERATOR_NAMESPACE),
    "timeout_s": dict(type="int", default=900),
}
PROGRESS_S = 15


def run(task):
    """Returns checks[]; in check mode the checks as they are, without waiting. Raises Failed at the deadline."""
    params, name = task.params, task.params["node"]
    after = operands.parse_time(params["after"])
    if params["after"] and after is None:
        raise Failed(f"after is not a time like 2026-12-01T10:00:00Z: {params['after']}. Nothing was changed.")
    uid = read_node(task, name, params["node_uid"])["metadata"]["uid"]
    mirror = watch_node(task, name, params["operator_namespace"])

    def checks():
        node = mirror.objects("node").get(uid)
        if node is None:
            raise Failed(
                f"The node {name} is gone, or another of that name took its place. Take it in again from join."
            )
        return readiness.checks(
            node,
            list(mirror.objects("pods").values()),
            list(mirror.objects("revisions").values()),
            params["expected_gpus"],
            params["driver_version"],
            after,
        )

    def missing():
        return [check for check in checks() if not check.passes]

    def tell():
        task.progress(f"waits until ready: {'; '.join(check.text for check in missing())}")

    if task.check_mode:
        return {"checks": _shown(checks()), "ready": not missing()}
    with mirror:
        if not mirror.wait_for(lambda: not missing(), params["timeout_s"], PROGRESS_S, tell):
            texts = "; ".join(f"{check.name}: {check.text}" for check in missing())
            raise Failed(
                f"{name} did not become ready within {params['timeout_s']} s: {texts}. It stays as it is. See kubectl describe "
                f"node {name} and kubectl -n {params['operator_namespace']} get pods -o wide --field-selector "
                f"spec.nodeName={name}; then run the same command again.",
                checks=_shown(checks()),
                ready=False,
            )
    return {"checks": _shown(checks()), "ready": True}


def watch_node(task, name, operator_namespace):
    """Mirror of a node, the pods on it, and the operator's ControllerRevisions (sources node, pods, revisions)."""
    mirror = Mirror(task.kube, monotonic=task.monotonic)
    mirror.add("node", paths.nodes(), fieldSelector=f"metadata.name={name}")
    mirror.add("pods", paths.pods(), fieldSelector=f"spec.nodeName={name}")
    return mirror.add("revisions", paths.workloads("controllerrevisions", operator_namespace))


def _shown(found):
    return [{"name": c.name, "ok": c.ok, "text": c.text, "applies": c.applies} for c in found]
