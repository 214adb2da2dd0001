# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection holds together: what is documented is what is accepted, and every module goes through the API door."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube import client
from ansible_collections.gpuops.lifecycle.plugins.plugin_utils.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))
DOCUMENTING = ("DOCUMENTATION", "EXAMPLES", "RETURN")
RUNTIME = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())


def load(name):
    return importlib.import_module(f"ansible_collections.gpuops.lifecycle.plugins.modules.{name}")


def fragment_options(documentation):
    found = {}
    for name in documentation.get("extends_documentation_fragment") or []:
        parts = name.split(".")
        module = importlib.import_module(f"ansible_collections.gpuops.lifecycle.plugins.doc_fragments.{parts[2]}")
        text = getattr(module.ModuleDocFragment, parts[3].upper() if len(parts) > 3 else "DOCUMENTATION")
        found.update(yaml.safe_load(text).get("options") or {})
    return found


def test_every_module_is_in_the_group_and_goes_through_the_api_door():
    actions = sorted(path.stem for path in (ROOT / "plugins/action").glob("*.py"))
    assert MODULES == actions == sorted(RUNTIME["action_groups"]["all"]) == sorted(OPERATIONS)


@pytest.mark.parametrize("name", MODULES)
def test_options_are_documented_as_they_are_accepted(name):
    documentation = yaml.safe_load(load(name).DOCUMENTATION)
    documented = {**fragment_options(documentation), **documentation["options"]}
    spec, _run = OPERATIONS[name]
    compare(documented, spec)


def compare(documented, spec):
    assert set(documented) == set(spec)
    for option, accepted in spec.items():
        said = documented[option]
        for key in ("type", "default", "required", "elements"):
            expected = accepted.get(key, False if key == "required" else None)
            assert said.get(key, False if key == "required" else None) == expected, (option, key)
        assert sorted(said.get("choices") or []) == sorted(accepted.get("choices") or []), option
        if "options" in accepted:
            compare(said["suboptions"], accepted["options"])


@pytest.mark.parametrize("name", MODULES)
def test_returned_values_and_examples_are_documented(name):
    returned = yaml.safe_load(load(name).RETURN)
    assert returned
    for key, value in returned.items():
        assert {"description", "type", "returned"} <= set(value), key
        assert "sample" in value or "contains" in value, key
    for task in yaml.safe_load(load(name).EXAMPLES):
        used = task.get(f"gpuops.lifecycle.{name}")
        if used is not None:
            assert set(used) <= set(OPERATIONS[name][0])


def test_roles_have_defaults_for_what_their_argument_specs_default():
    for spec in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        options = yaml.safe_load(spec.read_text())["argument_specs"]["main"].get("options") or {}
        defaults_file = spec.parents[1] / "defaults/main.yml"
        defaults = yaml.safe_load(defaults_file.read_text()) if defaults_file.exists() else {}
        expected = {name: option["default"] for name, option in options.items() if "default" in option}
        assert {k: v for k, v in defaults.items() if k != "gpuops_node"} == expected, spec


# What a site gets; whatever else lies in a checkout belongs to development.
SHIPPED = {
    "CHANGELOG.rst", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "changelogs", "docs", "extensions",
    "inventories", "meta", "playbooks", "plugins", "requirements.yml", "roles",
}  # fmt: skip


def test_the_tarball_holds_what_a_site_needs_and_nothing_else(tmp_path):
    command = [sys.executable, "-m", "ansible", "galaxy", "collection", "build", "--output-path", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = tmp_path.glob("gpuops-lifecycle-*.tar.gz")
    with tarfile.open(path) as tarball:
        listed = json.load(tarball.extractfile("FILES.json"))["files"]
    names = {entry["name"] for entry in listed if entry["ftype"] == "file"}
    assert {name.partition("/")[0] for name in names} <= SHIPPED
    assert {f"plugins/modules/{name}.py" for name in MODULES} < names
    assert not [name for name in names if "demo" in name]


def test_the_version_is_the_same_everywhere():
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    assert f"gpuops-lifecycle/{version}" == client.USER_AGENT


def test_a_change_is_described_for_the_changelog():
    released = yaml.safe_load((ROOT / "changelogs/changelog.yaml").read_text())["releases"]
    assert released or list((ROOT / "changelogs/fragments").glob("*.yml"))


def test_every_role_says_what_it_is():
    for role in (ROOT / "roles").iterdir():
        for file in ("README.md", "meta/main.yml", "meta/argument_specs.yml", "tasks/main.yml"):
            assert (role / file).is_file(), role / file


def python_files():
    return [path for folder in ("plugins", "simulator", "tests", "tools") for path in (ROOT / folder).rglob("*.py")]


def test_every_file_has_its_licence_in_the_first_lines():
    for path in python_files():
        lines = path.read_text().splitlines()[:3]
        assert any("GNU General Public License v3.0+" in line for line in lines), path
        assert "# SPDX-License-Identifier: GPL-3.0-or-later" in lines, path


def imported(path):
    """Dotted names of everything that a file imports, the names taken out of a module included."""
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.Import):
            yield from (name.name for name in found.names)
        elif isinstance(found, ast.ImportFrom):
            assert found.level == 0, f"{path}: imports go by absolute names"
            yield from (f"{found.module}.{name.name}" for name in found.names)


HELPERS = "ansible_collections.gpuops.lifecycle.plugins.module_utils"
STAGES = ("drain", "validate", "evidence", "change")
FORBIDDEN = [
    ("plugins", "simulator"),
    ("plugins", "tests"),
    ("simulator", "ansible_collections"),
    ("simulator", "tests"),
    *((f"plugins/module_utils/{one}", f"{HELPERS}.{other}") for one in STAGES for other in STAGES if one != other),
    *(("plugins/module_utils/node", f"{HELPERS}.{stage}") for stage in STAGES),
    *(("plugins/module_utils/kube", f"{HELPERS}.{other}") for other in ("node", *STAGES)),
]


@pytest.mark.parametrize(("folder", "other"), FORBIDDEN)
def test_dependencies_point_one_way(folder, other):
    for path in (ROOT / folder).rglob("*.py"):
        for name in imported(path):
            assert not f"{name}.".startswith(f"{other}."), f"{path} imports {name}"


def test_no_file_is_long():
    for path in python_files():
        tree = ast.parse(path.read_text())
        texts = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) in DOCUMENTING]
        code = len(path.read_text().splitlines()) - sum(n.end_lineno - n.lineno + 1 for n in texts)
        limit = 60 if path.parent.name == "modules" else 400
        assert code <= limit, f"{path} has {code} lines: split it by subject"
