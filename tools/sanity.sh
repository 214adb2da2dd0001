#!/usr/bin/env bash
# ansible-test sanity on an export of the tree: it wants …/ansible_collections/gpuops/lifecycle without links in it.
# Arguments go to ansible-test, for instance: tools/sanity.sh --test validate-modules
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export_dir=$root/.cache/sanity/ansible_collections/gpuops/lifecycle
rm -rf "$export_dir" && mkdir -p "$export_dir"
git ls-files -z --cached --others --exclude-standard -- . \
  ':!tests/contract' ':!tests/simulated' ':!tests/unit' ':!tests/fixtures' ':!tests/kubectl' ':!simulator' |
  while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
  xargs -0 cp --parents -t "$export_dir"

# ansible-test bootstraps pip with a script from the network unless its cache holds one; this one uses Python's own.
version=$("$root/.venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
data=$("$root/.venv/bin/python" -c 'import ansible_test, os; print(os.path.dirname(ansible_test.__file__))')
script=$(grep -rhoE 'get_pip_[0-9_]+\.py' "$data/_util/target/setup" "$data/_internal" | sort -u | tail -1 || true)
mkdir -p "${HOME}/.ansible/test/cache"
cp "$root/tools/get_pip.py" "${HOME}/.ansible/test/cache/${script:-get_pip_24_2.py}"

cd "$export_dir"
git init -q . && git add -A
exec "$root/.venv/bin/ansible-test" sanity --local --python "$version" --color no "$@"
