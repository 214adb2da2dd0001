# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long the operator may stay in a state, and what keeps a node there when it does. Pure."""

from __future__ import annotations

from ansible_collections.gpuops.lifecycle.plugins.module_utils.change import driver_steps

# The operator looks when a label changes, and else every 120 s: readiness can go unseen for two of these.
TICKS_S = 240
MARGIN_S = 60
# Image pull and, without precompiled modules, a build.
DRIVER_START_S = 1200
# Hard-coded in the operator; measured 700 s, as it is only looked at with a tick (k8s-operator-libs pkg/upgrade).
VALIDATION_S = 600
# The operator waits for ever for a validator pod that is not there at all.
NO_VALIDATOR_S = 180


def limit_s(seen, rules):
    """Seconds the node may stay as it is seen, None where the policy sets no limit. rules: driver.upgradePolicy."""
    if seen.state == driver_steps.WAIT_FOR_JOBS:
        own_s = _timeout_s(rules, "waitForCompletion", 0)
        return own_s + TICKS_S + MARGIN_S if own_s else None
    if seen.state == driver_steps.POD_DELETION:
        return _timeout_s(rules, "podDeletion", 300) + TICKS_S + MARGIN_S
    if seen.state == driver_steps.DRAIN:
        return _timeout_s(rules, "drain", 300) + TICKS_S + MARGIN_S
    if seen.state == driver_steps.POD_RESTART:
        return DRIVER_START_S + TICKS_S
    if seen.state == driver_steps.VALIDATION:
        return VALIDATION_S + TICKS_S + MARGIN_S if seen.validator else NO_VALIDATOR_S
    return TICKS_S + MARGIN_S


def _timeout_s(rules, part, default_s):
    found = (rules.get(part) or {}).get("timeoutSeconds")
    return default_s if found is None else found


def stuck(seen, name, namespace):
    """What keeps a node where it is, with the command that shows more."""
    pods = f"kubectl -n {namespace} get pods -o wide --field-selector spec.nodeName={name}"
    if not seen.node_ready:
        return f"the node is not Ready, so look at the machine (kubectl describe node {name})"
    if seen.gpu_pods and seen.state in (driver_steps.WAIT_FOR_JOBS, driver_steps.POD_DELETION, driver_steps.DRAIN):
        return f"GPU pods do not go: {driver_steps.listed(seen.gpu_pods)} (kubectl get pdb -A shows the disruption budgets)"
    if not seen.pod:
        taints = f"; the node has taint {driver_steps.listed(seen.foreign_taints)}" if seen.foreign_taints else ""
        return f"there is no driver pod on it{taints} ({pods})"
    if not seen.pod_ready:
        why = f": {seen.pod_waiting}" if seen.pod_waiting else ""
        return f"driver pod {seen.pod} is not Ready{why} (kubectl -n {namespace} logs {seen.pod} --all-containers)"
    if not seen.validator:
        return (
            "there is no validator pod on it; look at the label nvidia.com/gpu.deploy.operator-validator and the taints of "
            f"the node ({pods})"
        )
    if not seen.validated:
        return (
            f"validator pod {seen.validator} is not Ready since the driver started (kubectl -n {namespace} describe pod "
            f"{seen.validator})"
        )
    if seen.pod_in_sync is not True:
        return f"driver pod {seen.pod} is not of the newest revision (kubectl -n {namespace} logs deploy/gpu-operator says why)"
    if seen.label_version != seen.wanted:
        return (
            f"its driver label says {seen.label_version or 'nothing'}; where the driver itself is newer, restart the feature "
            f"discovery pod (kubectl -n {namespace} delete pod -l app=gpu-feature-discovery --field-selector "
            f"spec.nodeName={name})"
        )
    return (
        f"everything on it is ready and the operator does not move on (kubectl -n {namespace} logs deploy/gpu-operator)"
    )
