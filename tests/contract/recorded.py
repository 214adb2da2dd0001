# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded answers of kube-apiserver 1.36.3 (tests/fixtures/k8s), asked again and compared.

What cannot be the same is left out of the comparison: uids, times, versions, tokens, and the names of pods, which are
replaced by their workload's name. Refusals must then be equal to the last character. Of other answers the kind, and the
type of every field the real server sent, must be the same; values differ because the clusters do.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "k8s"
POD = re.compile(r"\b(free|tight|two|sick|stuck|stale|web)-[a-z0-9]{8,10}-[a-z0-9]{5}\b")
UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NO_UID = "00000000-0000-0000-0000-000000000000"
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
HEADERS = ("Content-Type", "Retry-After", "Warning")
# Fields that the simulated cluster does not fill in, and those that depend on the moment of recording.
LEFT_OUT = {
    "managedFields": "ownership is kept for server-side apply only",
    "storageVersionHash": "read by storage migration only",
    "volumes": "the service account's token is not mounted",
    "volumeMounts": "the service account's token is not mounted",
    "podIPs": "podIP is there",
    "hostIPs": "hostIP is there",
    "lastState": "empty in the record",
    "daemonEndpoints": "empty in the record",
    "annotations": "none on nodes, and none about revisions",
    "terminatingReplicas": "not counted",
    "lastUpdateTime": "lastTransitionTime is there",
    "deletionTimestamp": "the recorded pod was being deleted",
    "deletionGracePeriodSeconds": "the recorded pod was being deleted",
}
# Texts that hold a version of the cluster, or the whole object as the server decoded it.
LOOSE = (
    (re.compile(r'in the namespace "(rec|probe)"'), 'in the namespace "NAMESPACE"'),
    (re.compile(r"in record \(\d+\)"), "in record (VERSION)"),
    (re.compile(r"current: \d+"), "current: VERSION"),
    (re.compile(r"too old resource version: 1 \(\d+\)"), "too old resource version: 1 (VERSION)"),
    (re.compile(r'patch: Invalid value: "(?:[^"\\]|\\.)*":'), "patch: Invalid value: OBJECT:"),
    (re.compile(r'^Invalid value: "\{(?:[^"\\]|\\.)*":'), "Invalid value: OBJECT:"),
)


def load(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def request_of(recorded, world, namespace):
    """(method, path, body, content type, accept) for this cluster: pods by the same workload, namespaces renamed."""
    asked = recorded["request"]
    pods = {}

    def pod(match):
        app = match[1]
        if app not in pods:
            # A pod that is kept from ending has a replacement beside it; the records are about the one that ends.
            dying = {bool(p["metadata"].get("deletionTimestamp")): p for p in world.pods(app)}
            pods[app] = dying.get(app == "stuck") or dying[app != "stuck"]
        return pods[app]["metadata"]["name"]

    path = re.sub(r"/namespaces/(probe|rec|spec1|NS)(?=/|$)", f"/namespaces/{namespace}", POD.sub(pod, asked["path"]))
    text = POD.sub(pod, json.dumps(asked["body"]))
    text = re.sub(r'"namespace": "(probe|rec|spec1)"', f'"namespace": "{namespace}"', text)
    used = next(iter(pods.values()), None)
    text = UID.sub(lambda m: m[0] if m[0] == NO_UID or not used else used["metadata"]["uid"], text)
    return asked["method"], path, json.loads(text), asked["content_type"], asked.get("accept", "application/json")


def normal(value):
    """The comparable form of a body."""
    if isinstance(value, dict):
        found = {k: normal(v) for k, v in value.items()}
        if isinstance(found.get("causes"), list):
            # The server runs its metadata checks several times on an update and repeats the cause each time.
            found["causes"] = [c for i, c in enumerate(found["causes"]) if c not in found["causes"][:i]]
        return found
    if isinstance(value, list):
        return [normal(v) for v in value]
    if isinstance(value, str):
        value = TIME.sub("TIME", UID.sub("UID", POD.sub(r"\1", value)))
        for pattern, text in LOOSE:
            value = pattern.sub(text, value)
    return value


def differences(recorded, answer):
    """List of what differs, empty when the answers agree."""
    found = []
    if recorded["status"] != answer.status:
        found.append(f"status {answer.status}, recorded {recorded['status']}")
    headers = {k.lower(): v for k, v in answer.headers.items()}
    for name in HEADERS:
        want = recorded["headers"].get(name)
        have = headers.get(name.lower())
        if _media_type(want) != _media_type(have):
            found.append(f"header {name} {have!r}, recorded {want!r}")
    want, have = _parsed(recorded["body"]), _parsed(answer.body)
    if "watch=" in recorded["request"]["path"] and recorded["status"] == 200:
        want = want or []
        want = want if isinstance(want, list) else [want]
    if isinstance(want, dict) and want.get("kind") == "Status" and want.get("status") == "Failure":
        if normal(want) != normal(have):
            found.append(f"body {normal(have)}, recorded {normal(want)}")
    else:
        found += _shape(want, have, "")
    return found


def _media_type(header):
    return (header or "").split(";")[0]


def _parsed(body):
    if isinstance(body, str) and body.startswith("apiVersion:"):
        return yaml.safe_load(body)
    return body


def _shape(want, have, path):
    """Fields missing from `have`, or of another type. Lists are compared by their first items; events one by one."""
    if path.endswith((".managedFields", ".annotations", ".labels")) or want is None:
        return []
    if isinstance(want, dict):
        want = {key: value for key, value in want.items() if key not in LEFT_OUT or key in (have or {})}
    if type(want) is not type(have):
        return [f"{path or 'body'} is {type(have).__name__}, recorded {type(want).__name__}"]
    if isinstance(want, dict):
        found = [f"{path}.{key} is missing" for key in want if key not in have and want[key] is not None]
        found += [line for key in want if key in have for line in _shape(want[key], have[key], f"{path}.{key}")]
        for key in ("kind", "apiVersion", "type"):
            if key in want and key in have and path.count("[") <= 1 and want[key] != have[key]:
                found.append(f"{path}.{key} is {have[key]!r}, recorded {want[key]!r}")
        return found
    if isinstance(want, list):
        if path == "" and len(want) != len(have):
            return [f"{len(have)} events, recorded {len(want)}"]
        if want and not have:
            return [f"{path} is empty"]
        if path.endswith(".conditions"):
            return [f"{path} has no {c['type']}" for c in want if c["type"] not in {h["type"] for h in have}]
        pairs = zip(want, have) if path == "" else zip(want[:1], have[:1])
        return [line for i, (w, h) in enumerate(pairs) for line in _shape(w, h, f"{path}[{i}]")]
    return []
