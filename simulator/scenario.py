# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scenario files: read, checked, expanded. Whatever is wrong is said in one sentence with its place.

The format is described in simulator/scenarios/README.md.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from simulator import faults as fault_kinds
from simulator.gpu_operator.controller import Settings
from simulator.gpu_operator.policy import UPGRADE_POLICY

FOLDER = Path(__file__).parent / "scenarios"
TOP_KEYS = ("extends", "nodes", "operator", "budget", "manifests", "workloads", "faults")
CHECKOUT = FOLDER.parents[1]
NODE_KEYS = ("name", "gpus", "product", "labels", "driver", "zone", "count")
MOST_NODES, MOST_GPUS = 5000, 16
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
DRIVER = re.compile(r"\d+\.\d+(\.\d+)?")


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
    """workloads: manifests. faults: bodies as for POST /sim/faults. max_unavailable: what the observer allows."""

    name: str
    nodes: list
    operator: Settings
    workloads: list
    faults: list
    max_unavailable: int
    path: str = ""


def names():
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(name):
    """A Scenario for one of the names, or for a path. Raises BadScenario."""
    path = _path(name, Path())
    raw = _read(path)
    file = _Place(str(path))
    file.only(raw, TOP_KEYS, "a scenario has")
    nodes = [spec for place, entry in file.items(raw, "nodes") for spec in _nodes(place, entry)]
    if not nodes:
        raise file.wrong("nodes is empty; give at least one {name, gpus}")
    if len(nodes) > MOST_NODES:
        raise file.wrong(f"nodes: {len(nodes)} are too many, {MOST_NODES} may be")
    gpus = {}
    for node in nodes:
        if node.name in gpus:
            raise file.wrong(f"nodes: the name {node.name} is given twice")
        gpus[node.name] = node.gpus
    workloads = [m for place, folder in file.items(raw, "manifests") for m in _manifests(place, folder)]
    workloads += [_workload(place, manifest) for place, manifest in file.items(raw, "workloads")]
    faults = [_fault(place, fault, gpus) for place, fault in file.items(raw, "faults")]
    operator = _operator(file.at("operator"), raw.get("operator"))
    budget = file.at("budget").mapping(raw.get("budget") or {})
    file.at("budget").only(budget, ("max_unavailable",), "it has")
    allowed = file.at("budget.max_unavailable").number(budget.get("max_unavailable", 1), 0, MOST_NODES)
    return Scenario(path.stem, nodes, operator, workloads, faults, allowed, str(path))


def _manifests(place, folder):
    """Objects from the YAML files of a folder of the checkout; those that need a namespace come last."""
    files = sorted((CHECKOUT / folder).glob("*.yml")) if isinstance(folder, str) else []
    if not files:
        raise place.wrong(f"{folder!r} is no folder of the checkout with .yml files in it")
    found = [document for file in files for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    return sorted(found, key=lambda manifest: "namespace" in manifest["metadata"])


def _path(name, beside):
    is_file = "/" in name or name.endswith((".yml", ".yaml"))
    return beside / name if is_file else FOLDER / f"{name}.yml"


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
    raw = _Place(str(path)).mapping(raw, f"a scenario is a mapping with {', '.join(TOP_KEYS)}")
    if "extends" not in raw:
        return raw
    base = _read(_path(_Place(str(path), "extends").text(raw["extends"]), path.parent), (*seen, path))
    merged = {**base, **raw}
    if isinstance(base.get("operator"), dict) and isinstance(raw.get("operator"), dict):
        merged["operator"] = {**base["operator"], **raw["operator"]}
    return merged


class _Place:
    """A place in a file, with the checks that name it."""

    def __init__(self, file, where=""):
        self.file, self.where = file, where

    def at(self, key):
        return _Place(self.file, f"{self.where}{'.' if self.where and not key.startswith('[') else ''}{key}")

    def wrong(self, text):
        return BadScenario(f"{self.file}: {self.where + ' ' if self.where else ''}{text}.")

    def only(self, mapping, allowed, intro):
        for key in mapping:
            if key not in allowed:
                raise self.wrong(f"has an unknown key {key!r}; {intro} {', '.join(allowed)}")

    def mapping(self, value, text="must be a mapping"):
        if not isinstance(value, dict):
            raise self.wrong(text)
        return value

    def text(self, value, pattern=None, what="text"):
        if not isinstance(value, str) or (pattern and not pattern.fullmatch(value)):
            raise self.wrong(f"must be {what}, not {value!r}")
        return value

    def number(self, value, low, high, kinds=(int,)):
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            raise self.wrong(f"must be a number from {low} to {high}, not {value!r}")
        return value

    def items(self, mapping, key):
        """[(place, item)] of a list that may be missing."""
        found = mapping.get(key) or []
        if not isinstance(found, list):
            raise self.at(key).wrong("must be a list")
        return [(self.at(f"{key}[{i}]"), item) for i, item in enumerate(found)]


def _nodes(place, entry):
    place.mapping(entry, "must be a mapping with a name (and gpus)")
    place.only(entry, NODE_KEYS, "a node has")
    given = {k: v for k, v in entry.items() if k not in ("name", "count")}
    for key, label in place.at("labels").mapping(given.get("labels", {})).items():
        place.at(f"labels.{key}").text(label)
    for key in ("product", "zone"):
        place.at(key).text(given.get(key, ""))
    if "driver" in given:
        place.at("driver").text(given["driver"], DRIVER, "a version such as 580.95.05 in quotes")
    place.at("gpus").number(given.get("gpus", 8), 0, MOST_GPUS)
    for name in _node_names(place, entry):
        yield NodeSpec(place.at("name").text(name, NAME, "a host name in lower case"), **given)


def _node_names(place, entry):
    name = place.at("name").text(entry.get("name"))
    if "count" not in entry:
        return [name]
    count = place.at("count").number(entry["count"], 1, MOST_NODES)
    try:
        return [name.format(number) for number in range(1, count + 1)]
    except (IndexError, KeyError, ValueError) as error:
        raise place.at("name").wrong(f"must be a format for one number, such as gpu-{{:03d}}, not {name!r}") from error


def _workload(place, manifest):
    place.mapping(manifest, "must be a Kubernetes manifest")
    for key in ("apiVersion", "kind"):
        place.at(key).text(manifest.get(key))
    metadata = place.at("metadata").mapping(manifest.get("metadata"))
    place.at("metadata.name").text(metadata.get("name"))
    return manifest


def _fault(place, fault, gpus):
    try:
        return fault_kinds.checked(place.mapping(fault), gpus)
    except ValueError as error:
        raise place.wrong(f"is no fault: {error}") from error


def _operator(place, raw):
    place.mapping(raw or {})
    fields = [f.name for f in dataclasses.fields(Settings)]
    place.only(raw or {}, fields, "it has")
    for key, value in (raw or {}).items():
        if key == "driver":
            place.at(key).text(value, DRIVER, "a version such as 580.95.05 in quotes")
        elif key == "tolerations":
            for where, toleration in place.items(raw, key):
                where.mapping(toleration)
        elif key == "upgrade_policy":
            place.at(key).only(place.at(key).mapping(value), UPGRADE_POLICY, "it has")
        elif key == "restart_only":
            if not isinstance(value, bool):
                raise place.at(key).wrong(f"must be true or false, not {value!r}")
        else:
            place.at(key).number(value, 0.1, 86400, (int, float))
    return Settings(**(raw or {}))
