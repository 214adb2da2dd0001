#!/bin/sh
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Build kubectl 1.36 from its Go module into .cache/kubectl (about a minute the first time, nothing to do afterwards).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../.cache/kubectl}
[ -x "$out" ] && [ "$out" -nt "$here/go.sum" ] && exit 0
mkdir -p "$(dirname "$out")"
version=$(sed -n 's,^[[:space:]]*k8s.io/kubectl v0\.,v1.,p' "$here/go.mod")
# Without the version `kubectl version` ends in a parse error of its own placeholder.
cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$out" .
