# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection holds together: what is documented is what is accepted, and every module goes through the API door."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpuops.lifecycle.plugins.plugin_utils.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))
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


def test_no_file_is_long():
    for folder in ("plugins", "simulator"):
        for path in (ROOT / folder).rglob("*.py"):
            lines = path.read_text().split('RETURN = r"""')[0].count("\n")
            assert lines <= 420, f"{path} has {lines} lines: split it by subject"
