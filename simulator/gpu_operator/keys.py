# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labels and annotations of the GPU operator and its upgrade library (k8s-operator-libs pkg/upgrade/consts.go)."""

STATE = "nvidia.com/gpu-driver-upgrade-state"
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
DRAIN_SKIP = "nvidia.com/gpu-driver-upgrade-drain.skip"
REQUESTED = "nvidia.com/gpu-driver-upgrade-requested"
INITIAL = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
WAIT_START = "nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time"
VALIDATION_START = "nvidia.com/gpu-driver-upgrade-validation-start-time"
ENABLED = "nvidia.com/gpu-driver-upgrade-enabled"

REQUIRED = "upgrade-required"
CORDON = "cordon-required"
WAIT = "wait-for-jobs-required"
POD_DELETION = "pod-deletion-required"
DRAIN = "drain-required"
POD_RESTART = "pod-restart-required"
VALIDATION = "validation-required"
UNCORDON = "uncordon-required"
DONE = "upgrade-done"
FAILED = "upgrade-failed"

NAMESPACE = "gpu-operator"
REVISION_HASH = "controller-revision-hash"
PAUSED = "paused-for-driver-upgrade"
DRIVER_VERSION = "nvidia.com/cuda.driver-version.full"
