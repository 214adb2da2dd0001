# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write types.json from the OpenAPI document of a Kubernetes release.

Usage: python -m simulator.api.make_types k8s.io/kubernetes@v1.36.3/api/openapi-spec/swagger.json (from the Go module cache)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOTS = (
    "core.v1.Namespace", "core.v1.Node", "core.v1.Pod", "core.v1.ConfigMap", "core.v1.Secret", "core.v1.Service",
    "core.v1.ServiceAccount", "core.v1.PersistentVolumeClaim", "apps.v1.Deployment", "apps.v1.ReplicaSet",
    "apps.v1.StatefulSet", "apps.v1.DaemonSet", "batch.v1.Job", "policy.v1.PodDisruptionBudget", "policy.v1.Eviction",
    "coordination.v1.Lease", "scheduling.v1.PriorityClass", "rbac.v1.ClusterRole", "rbac.v1.ClusterRoleBinding",
    "rbac.v1.Role", "rbac.v1.RoleBinding",
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
    return found


def main(path):
    with open(path, encoding="utf-8") as file:
        found = collect(json.load(file)["definitions"])
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(found.items())]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    Path(__file__).with_name("types.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
