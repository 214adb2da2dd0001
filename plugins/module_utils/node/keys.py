# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names on the cluster: ours, the GPU operator's, and what others use to keep a node out."""

from __future__ import annotations

DOMAIN = "lifecycle.gpuops.io"
NAMESPACE = "gpuops-system"

HOLD_ANNOTATION = f"{DOMAIN}/hold"
HOLD_TAINT = f"{DOMAIN}/hold"
QUALIFICATION_LABEL = f"{DOMAIN}/qualification"
STAGE_LABEL = f"{DOMAIN}/stage"
SKIP_SET_BY = f"{DOMAIN}/skip-set-by"
LOCK_OF = f"{DOMAIN}/lock-of"
TAKEN_OVER_FROM = f"{DOMAIN}/taken-over-from"

# Stage a node is in while a change is made (label STAGE_LABEL), by the change that holds it.
STAGE_OF_CHANGE = {
    "join": "joining",
    "validate": "validating",
    "driver": "upgrading",
    "firmware": "upgrading",
    "os": "upgrading",
    "mig": "upgrading",
    "repair": "repairing",
    "retire": "retiring",
}

# GPU operator (NVIDIA/k8s-operator-libs pkg/upgrade/consts.go, NVIDIA/k8s-device-plugin GFD)
UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
UPGRADE_SKIP = "nvidia.com/gpu-driver-upgrade.skip"
INITIAL_UNSCHEDULABLE = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
DRIVER_VERSION_LABEL = "nvidia.com/cuda.driver-version.full"
PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
GPU_RESOURCE = "nvidia.com/gpu"
MIG_CONFIG = "nvidia.com/mig.config"
MIG_CONFIG_STATE = "nvidia.com/mig.config.state"
MIG_STRATEGY = "nvidia.com/mig.strategy"
OPERATOR_NAMESPACE = "gpu-operator"

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
