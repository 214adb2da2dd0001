#!/usr/bin/env bash
# Sets up .venv from a requirements file, and the collections path through which FQCNs work in a checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 requirements=$2
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or newer is needed; $python is $("$python" --version). Set another with: make PYTHON=/path/to/python3.11" >&2
  exit 1
}
[ -x .venv/bin/pip ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r "$requirements"
mkdir -p .collections/ansible_collections/gpuops
ln -sfn ../../.. .collections/ansible_collections/gpuops/lifecycle
