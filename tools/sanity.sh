#!/usr/bin/env bash
# ansible-test sanity on an export of the tree: it wants …/ansible_collections/gpuops/lifecycle without links in it.
# Arguments go to ansible-test, for instance: tools/sanity.sh --test validate-modules
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export PATH=$root/.venv/bin:$PATH
export_dir=$root/.cache/sanity/ansible_collections/gpuops/lifecycle
rm -rf "$export_dir" && mkdir -p "$export_dir"
git ls-files -z --cached --others --exclude-standard -- . \
  ':!tests/contract' ':!tests/simulated' ':!tests/unit' ':!tests/fixtures' ':!tests/kubectl' ':!simulator' |
  while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
  tar -cf - --null -T - | tar -xf - -C "$export_dir"

# ansible-test bootstraps pip with a script from the network unless its cache holds one; this one uses Python's own.
version=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
needs=$(python -c 'import ansible_test; print(ansible_test.__path__[0])')/_internal/python_requirements.py
pip=$(sed -n "s/^ *pip='\([0-9.]*\)',$/\1/p" "$needs")
cached=$HOME/.ansible/test/cache/get_pip_${pip//./_}.py
mkdir -p "$(dirname "$cached")"
[ -e "$cached" ] || cp "$root/tools/get_pip.py" "$cached"

cd "$export_dir"
git init -q . && git add -A
exec ansible-test sanity --local --python "$version" --color no "$@"
