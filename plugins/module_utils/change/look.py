# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the objects of a mirror, and the operator's events, to what is seen of the node that is upgraded."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change.driver_steps import Seen
from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import budget, hold, keys, operands, readiness
from ansible_collections.gpuops.lifecycle.plugins.module_utils.task import Failed


def look(params, mirror, policy, uid):
    """driver_steps.Seen of the moment. Failed when the node of that UID is gone."""
    name, nodes = params["node"], mirror.objects("node")
    if uid not in nodes:
        raise Failed(
            f"The node {name} is gone{' and there is another of that name' if nodes else ''}. Whatever was done to it is not "
            "proven; take it in again from join."
        )
    return seen_of(
        nodes[uid],
        pods_of(mirror),
        list(mirror.objects("revisions").values()),
        policy,
        params["version"],
        params["owner"],
    )


def pods_of(mirror):
    return list(mirror.objects("pods").values())


def last_warning(events, since):
    """Message of the operator's newest Warning from `since` on (RFC 3339 UTC, as the API server writes it), "" for none."""
    found = [e for e in events if e.get("type") == "Warning" and (e.get("lastTimestamp") or "") >= since]
    return max(found, key=lambda e: e["lastTimestamp"])["message"].strip() if found else ""


def gave_up(events, driver):
    """Whether the operator called the upgrade failed when the driver pod was Ready: its validation took too long."""
    ready = operands.became_ready(driver)
    return ready is not None and any(
        (event.get("message") or "").endswith("to upgrade-failed")
        and (operands.parse_time(event.get("lastTimestamp")) or ready) >= ready
        for event in events
    )


def seen_of(node, pods, revisions, policy, wanted, owner):
    """driver_steps.Seen for a Node, the pods on it, the ControllerRevisions and the ClusterPolicy. Pure."""
    driver, validator = operands.driver_of(pods), operands.validator_of(pods)
    labels, annotations = operands.labels_of(node), node["metadata"].get("annotations") or {}
    workloads = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in operands.gpu_workloads(pods)]
    return Seen(
        wanted=wanted,
        policy_version=(policy["spec"].get("driver") or {}).get("version") or "",
        state=labels.get(keys.UPGRADE_STATE, ""),
        label_version=labels.get(keys.DRIVER_VERSION_LABEL, ""),
        cordoned=hold.is_cordoned(node),
        held=hold.entry_of(node, owner) is not None,
        armed=keys.INITIAL_UNSCHEDULABLE in annotations,
        skip=labels.get(keys.UPGRADE_SKIP, ""),
        skip_ours=keys.SKIP_SET_BY in annotations,
        pod=driver["metadata"]["name"] if driver else "",
        pod_in_sync=operands.in_sync(driver, revisions) if driver else None,
        pod_ready=bool(driver) and operands.is_ready(driver),
        pod_restarts=operands.restarts(driver) if driver else 0,
        pod_waiting=operands.waiting_reason(driver) if driver else "",
        validator=validator["metadata"]["name"] if validator else "",
        validated=bool(driver) and operands.validated(validator, driver) is True,
        gpu_pods=tuple(sorted(workloads)),
        node_ready=budget.is_ready(node),
        foreign_taints=tuple(readiness.foreign_taints(node)),
    )
