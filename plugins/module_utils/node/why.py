# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every reason a node is out, whose it is, and what would end it. Pure.

Marks of others that are recognised (and never touched): kured, the machine config operator, NVSentinel, medik8s,
system-upgrade-controller, cluster-autoscaler, the node controller, the GPU operator.
"""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.node import budget, hold, keys

# taint key or prefix -> (whose, what ends it)
FOREIGN_TAINTS = {
    "node.kubernetes.io/": ("the node controller", "the node's own condition clears it"),
    "node.cloudprovider.kubernetes.io/": ("the cloud provider", "the cloud provider clears it"),
    "ToBeDeletedByClusterAutoscaler": ("cluster-autoscaler", "the autoscaler deletes the node or gives up"),
    "DeletionCandidateOfClusterAutoscaler": ("cluster-autoscaler", "the autoscaler, when the node is needed again"),
    "medik8s.io/": ("medik8s node maintenance", "its NodeMaintenance object ends"),
    "nvsentinel": ("NVSentinel", "NVSentinel, when its health event clears"),
    "karpenter.sh/": ("Karpenter", "Karpenter"),
}
# annotation or label that says who cordoned
FOREIGN_CORDONS = {
    "weave.works/kured-node-lock": "kured",
    "machineconfiguration.openshift.io/desiredDrain": "the machine config operator",
    "quarantineHealthEvent": "NVSentinel",
    "quarantineHealthEventIsCordoned": "NVSentinel",
    "upgrade.cattle.io/controller": "system-upgrade-controller",
    "node.kubernetes.io/node-maintenance": "medik8s node maintenance",
}
EXPECTED_TAINTS = ("nvidia.com/gpu", keys.HOLD_TAINT, keys.UNSCHEDULABLE_TAINT)


def reasons(node, newest_record=None):
    """[{kind: hold|cordon|taint|condition|operator|validation, whose, since, why, ends}] — empty: nothing keeps it out."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    name = metadata["name"]
    found = []
    for entry in hold.entries(node):
        found.append(
            {
                "kind": "hold",
                "whose": entry["owner"],
                "since": entry.get("since", ""),
                "why": f"{entry.get('reason', '')} (change {entry.get('change', '?')}, run {entry.get('run', '?')})",
                "ends": _what_ends_a_hold(name, newest_record),
            }
        )
    if hold.foreign_cordon(node):
        whose = sorted({who for key, who in FOREIGN_CORDONS.items() if key in annotations or key in labels})
        found.append(
            {
                "kind": "cordon",
                "whose": ", ".join(whose) or "somebody else",
                "since": _time_added(spec, keys.UNSCHEDULABLE_TAINT),
                "why": "cordoned, and not by a hold of ours",
                "ends": f"whoever cordoned it; if that was you: kubectl uncordon {name}",
            }
        )
    for taint in spec.get("taints") or []:
        if taint["key"] in EXPECTED_TAINTS or taint["effect"] == "PreferNoSchedule":
            continue
        whose, ends = next(
            (known for prefix, known in FOREIGN_TAINTS.items() if prefix in taint["key"]),
            ("somebody else", "whoever set it"),
        )
        text = f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        found.append({"kind": "taint", "whose": whose, "since": taint.get("timeAdded", ""), "why": text, "ends": ends})
    if not budget.is_ready(node):
        found.append(
            {
                "kind": "condition",
                "whose": "the node controller",
                "since": "",
                "why": "the node is not Ready",
                "ends": f"its kubelet reports again (kubectl describe node {name})",
            }
        )
    if labels.get(keys.UPGRADE_STATE) == "upgrade-failed":
        found.append(
            {
                "kind": "operator",
                "whose": "the GPU operator",
                "since": "",
                "why": "its driver upgrade failed",
                "ends": "see the driver pod of the node; the operator opens the node by itself once that pod is Ready",
            }
        )
    return found


def _what_ends_a_hold(name, record):
    if record and record["spec"].get("verdict") == "pass":
        return (
            f"record {record['metadata']['name']} passes: the run that holds the node gives it back "
            "(run the same command again if that run is gone)"
        )
    if record and record["spec"].get("verdict") in ("fail", "unknown"):
        said = (
            f"record {record['metadata']['name']} says {record['spec']['verdict']}: {record['spec'].get('reason', '')}"
        )
        return (
            f"{said}. After the repair: ansible-playbook gpuops.lifecycle.upgrade --limit {name} "
            "-e gpuops_retry_failed=true, with the change it was held for"
        )
    return "a passing validation: run the command again that holds it; it goes on where it stopped"


def _time_added(spec, key):
    return next((t.get("timeAdded", "") for t in spec.get("taints") or [] if t["key"] == key), "")
