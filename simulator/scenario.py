# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scenario files: read, checked, expanded. Whatever is wrong is said in one sentence with its place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from simulator.gpu_operator.controller import Settings
from simulator.nodes.gpus import FAULTS

FOLDER = Path(__file__).parent / "scenarios"
NODE_KEYS = {"name": str, "gpus": int, "product": str, "labels": dict, "driver": str, "zone": str, "count": int}
TOP_KEYS = ("extends", "nodes", "operator", "budget", "workloads", "faults")


class BadScenario(ValueError):
    """One sentence: file, place, what is allowed."""


@dataclass
class NodeSpec:
    name: str
    gpus: int = 8
    product: str = "NVIDIA-H100-80GB-HBM3"
    labels: dict = field(default_factory=dict)
    driver: str | None = None
    zone: str = "zone-1"


@dataclass
class Scenario:
    name: str
    nodes: list
    operator: Settings
    workloads: list
    faults: list
    max_unavailable: int


def names():
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(name):
    """A Scenario for one of the names, or for a path."""
    path = FOLDER / f"{name}.yml" if "/" not in name and not name.endswith((".yml", ".yaml")) else Path(name)
    raw = _read(path)
    for key in raw:
        if key not in TOP_KEYS:
            raise BadScenario(f"{path}: unknown key {key!r}; a scenario has {', '.join(TOP_KEYS)}.")
    settings = _operator(path, raw.get("operator") or {})
    nodes = [spec for i, entry in enumerate(_list(path, raw, "nodes")) for spec in _nodes(path, i, entry)]
    if not nodes:
        raise BadScenario(f"{path}: nodes is empty; give at least one {{name, gpus}}.")
    twice = sorted({n.name for n in nodes if sum(m.name == n.name for m in nodes) > 1}) if len(nodes) < 500 else []
    if twice:
        raise BadScenario(f"{path}: nodes: the name {twice[0]} is given twice.")
    workloads = _list(path, raw, "workloads")
    for i, manifest in enumerate(workloads):
        missing = [k for k in ("apiVersion", "kind", "metadata") if not isinstance(manifest, dict) or k not in manifest]
        if missing:
            raise BadScenario(f"{path}: workloads[{i}] is no Kubernetes manifest: {missing[0]} is missing.")
    faults = _list(path, raw, "faults")
    for i, fault in enumerate(faults):
        if not isinstance(fault, dict) or fault.get("kind") not in FAULTS:
            raise BadScenario(f"{path}: faults[{i}].kind must be one of {', '.join(FAULTS)}.")
    budget = raw.get("budget") or {}
    if not isinstance(budget, dict) or not isinstance(budget.get("max_unavailable", 1), int):
        raise BadScenario(f"{path}: budget.max_unavailable must be a number of nodes.")
    return Scenario(path.stem, nodes, settings, workloads, faults, budget.get("max_unavailable", 1))


def _read(path, seen=()):
    if path in seen:
        raise BadScenario(f"{path}: extends itself.")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadScenario(f"There is no scenario {path}; there are {', '.join(names())}, or give a path.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path} cannot be read: {error}.") from error
    except yaml.YAMLError as error:
        raise BadScenario(f"{path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(raw, dict):
        raise BadScenario(f"{path}: a scenario is a mapping with {', '.join(TOP_KEYS)}.")
    if raw.get("extends"):
        base = _read(FOLDER / f"{raw['extends']}.yml", (*seen, path))
        merged = {**base, **raw}
        if isinstance(base.get("operator"), dict) and isinstance(raw.get("operator"), dict):
            merged["operator"] = {**base["operator"], **raw["operator"]}
        return merged
    return raw


def _list(path, raw, key):
    value = raw.get(key) or []
    if not isinstance(value, list):
        raise BadScenario(f"{path}: {key} must be a list.")
    return value


def _operator(path, raw):
    fields = {f.name: f for f in dataclasses.fields(Settings)}
    for key, value in raw.items():
        if key not in fields:
            raise BadScenario(f"{path}: operator.{key} is unknown; there are {', '.join(fields)}.")
        default = getattr(Settings(), key)
        kinds = (
            (int, float)
            if isinstance(default, float) or (isinstance(default, int) and not isinstance(default, bool))
            else type(default)
        )
        if not isinstance(value, kinds):
            raise BadScenario(f"{path}: operator.{key} must be like {default!r}, not {value!r}.")
    return Settings(**raw)


def _nodes(path, i, entry):
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise BadScenario(f"{path}: nodes[{i}] needs a name (and gpus).")
    for key, value in entry.items():
        if key not in NODE_KEYS:
            raise BadScenario(f"{path}: nodes[{i}].{key} is unknown; there are {', '.join(NODE_KEYS)}.")
        if not isinstance(value, NODE_KEYS[key]) or isinstance(value, bool):
            raise BadScenario(f"{path}: nodes[{i}].{key} must be a {NODE_KEYS[key].__name__}, not {value!r}.")
    given = {k: v for k, v in entry.items() if k not in ("name", "count")}
    if "count" not in entry:
        yield NodeSpec(entry["name"], **given)
        return
    for number in range(1, entry["count"] + 1):
        yield NodeSpec(entry["name"].format(number), **given)
