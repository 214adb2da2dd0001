# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write types.json and messages.json from the Go modules of a Kubernetes release.

types.json: field names and types as JSON has them, from the OpenAPI document. messages.json: field numbers of the same
types, from the generated.proto files.

Usage: python -m simulator.api.make_types "$(go env GOMODCACHE)/k8s.io" 1.36.3
(with k8s.io/kubernetes, k8s.io/api and k8s.io/apimachinery of that version in the module cache)
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOTS = (
    "core.v1.Namespace", "core.v1.Node", "core.v1.Pod", "core.v1.ConfigMap", "core.v1.Secret", "core.v1.Service",
    "core.v1.ServiceAccount", "core.v1.PersistentVolumeClaim", "apps.v1.Deployment", "apps.v1.ReplicaSet",
    "apps.v1.StatefulSet", "apps.v1.DaemonSet", "batch.v1.Job", "policy.v1.PodDisruptionBudget", "policy.v1.Eviction",
    "coordination.v1.Lease", "scheduling.v1.PriorityClass", "rbac.v1.ClusterRole", "rbac.v1.ClusterRoleBinding",
    "rbac.v1.Role", "rbac.v1.RoleBinding", "authorization.v1.SelfSubjectAccessReview",
    "authorization.v1.SelfSubjectRulesReview",
)  # fmt: skip
LEAVES = {
    "meta.v1.Time": "time", "meta.v1.MicroTime": "microtime", "resource.Quantity": "quantity",
    "intstr.IntOrString": "int-or-string", "meta.v1.FieldsV1": "any", "runtime.RawExtension": "any",
}  # fmt: skip


def short(name):
    """io.k8s.api.core.v1.Pod -> core.v1.Pod; io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta -> meta.v1.ObjectMeta."""
    return ".".join(name.split(".")[-3:]).removeprefix("api.").removeprefix("util.").removeprefix("pkg.")


def collect(definitions):
    """{type: {field: shape}}; a shape is a leaf word, "#type", [shape] for a list or {"": shape} for a map."""
    found = {}

    def shape(schema):
        if "$ref" in schema:
            name = short(schema["$ref"].rpartition("/")[2])
            if name in LEAVES:
                return LEAVES[name]
            visit(schema["$ref"].rpartition("/")[2])
            return f"#{name}"
        kind = schema.get("type", "any")
        if kind == "array":
            return [shape(schema["items"])]
        if kind == "object":
            return {"": shape(schema["additionalProperties"])} if "additionalProperties" in schema else "any"
        return {"boolean": "bool", "integer": schema.get("format", "int64"), "number": "float64"}.get(kind, kind)

    def visit(full):
        name = short(full)
        if name not in found:
            found[name] = {}
            found[name] = {field: shape(s) for field, s in definitions[full].get("properties", {}).items()}

    for root in ROOTS:
        visit(f"io.k8s.api.{root}")
    visit("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    return found


FIELD = re.compile(r"^  (optional|repeated|map<string, *([^>]+)>) *(\S*) (\w+) = (\d+);$", re.MULTILINE)


def messages(text, package, types):
    """{type: {number: [field, shape]}} for the messages of one generated.proto; field "" is one that JSON has inline."""
    found = {}
    for name, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        full = short(f"{package}.{name}")
        fields = {}
        for label, of, kind, field, number in FIELD.findall(body):
            shape = _proto_shape(of or kind, package)
            shape = {"": shape} if of else [shape] if label == "repeated" else shape
            inline = full in types and field not in types[full] and isinstance(shape, str) and shape.startswith("#")
            fields[number] = ["" if inline else field, shape]
        found[full] = fields
    return found


def _proto_shape(kind, package):
    if kind in ("string", "bool", "bytes", "int32", "int64", "double"):
        return kind
    return "#" + short(kind.lstrip(".") if "." in kind else f"{package}.{kind}")


def reachable(found, types):
    kept, waiting = {}, [name for name in types if name in found]
    while waiting:
        name = waiting.pop()
        if name in kept or name not in found:
            continue
        kept[name] = found[name]
        for _field, shape in found[name].values():
            while not isinstance(shape, str):
                shape = shape[""] if isinstance(shape, dict) else shape[0]
            if shape.startswith("#"):
                waiting.append(shape[1:])
    return kept


def write(name, found):
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(found.items())]
    Path(__file__).with_name(name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(modules, version):
    modules, staging = Path(modules), "v0" + version.removeprefix("1")
    document = modules / f"kubernetes@v{version}" / "api/openapi-spec/swagger.json"
    types = collect(json.loads(document.read_text(encoding="utf-8"))["definitions"])
    found = {}
    for module in ("api", "apimachinery"):
        folder = modules / f"{module}@{staging}"
        for path in sorted(folder.glob("**/generated.proto")):
            text = path.read_text(encoding="utf-8")
            found.update(messages(text, re.search(r"^package (\S+);", text, re.MULTILINE)[1], types))
    write("types.json", types)
    write("messages.json", reachable(found, types))


if __name__ == "__main__":
    main(*sys.argv[1:])
