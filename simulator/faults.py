# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults on demand: which there are, what each takes, and how each is brought about in a running cluster."""

from __future__ import annotations

from simulator.api.access import InjectedError
from simulator.nodes import gpus as machines
from simulator.objects import gpu_request

FINALIZER = "simulator.gpuops.io/stuck"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "*")
API_ERROR = {"verb": str, "resource": str, "status": int, "times": int, "retry_after": int}
KINDS = (*machines.FAULTS, "api_error", "stuck_finalizer")


def checked(fault, gpus):
    """The fault as it was given, or ValueError with a sentence. gpus: {node: how many it has}."""
    if not isinstance(fault, dict) or fault.get("kind") not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}")
    fields = {key: value for key, value in fault.items() if key != "kind"}
    if fault["kind"] == "api_error":
        _check_api_error(fields)
    elif fault["kind"] == "stuck_finalizer" and "node" not in fault:
        if set(fields) != {"namespace", "pod"} or not all(isinstance(value, str) for value in fields.values()):
            raise ValueError("stuck_finalizer takes namespace and pod, or node")
    else:
        node = fields.pop("node", None)
        if not isinstance(node, str) or node not in gpus:
            raise ValueError(f"node must be one of {', '.join(sorted(gpus))}, not {node!r}")
        if fault["kind"] != "stuck_finalizer":
            machines.check_fault(fault["kind"], fields, node, gpus[node])
        elif fields:
            raise ValueError("stuck_finalizer takes namespace and pod, or node")
    return fault


def _check_api_error(fields):
    for name, value in fields.items():
        if name not in API_ERROR or not isinstance(value, API_ERROR[name]) or isinstance(value, bool):
            known = ", ".join(f"{n} ({'a number' if kind is int else 'text'})" for n, kind in API_ERROR.items())
            raise ValueError(f"api_error takes {known}, not {name}={value!r}")
    for name in ("verb", "resource", "status"):
        if name not in fields:
            raise ValueError(f"api_error needs {name}")
    if fields["verb"] not in VERBS:
        raise ValueError(f"api_error: verb must be one of {', '.join(VERBS)}, not {fields['verb']!r}")
    if not 400 <= fields["status"] <= 599:
        raise ValueError(f"api_error: status must be between 400 and 599, not {fields['status']}")
    if fields.get("times", 1) < 1 or fields.get("retry_after", 0) < 0:
        raise ValueError("api_error: times must be at least 1, retry_after at least 0")


def inject(fault, store, access, machines_by_name):
    """Bring a checked fault about. Raises ValueError when the pods it names are not there."""
    fields = {key: value for key, value in fault.items() if key not in ("kind", "node")}
    if fault["kind"] == "api_error":
        access.errors.append(InjectedError(**fields))
    elif fault["kind"] == "stuck_finalizer":
        _stick(store, fault)
    else:
        machines_by_name[fault["node"]].inject(fault["kind"], fields)


def _stick(store, fault):
    """A finalizer nobody removes, on one pod or on the GPU pods of a node."""
    if "node" in fault:
        chosen = [pod for pod in store.pods_on(fault["node"]) if gpu_request(pod)]
    else:
        chosen = [pod for pod in (store.get("pods", fault["pod"], fault["namespace"]),) if pod]
    if not chosen:
        raise ValueError("no such pod: give namespace and pod of one that is there, or a node with GPU pods on it")

    def edit(pod):
        finalizers = pod["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    _edit(store, chosen, edit)


def clear(store, access, machines_by_name, node=None):
    """End the faults of one node, or all. A pod that only a finalizer kept is gone with it."""
    for name, machine in machines_by_name.items():
        if node in (None, name):
            machine.clear()
    pods = store.pods_on(node) if node else store.list("pods")
    stuck = [pod for pod in pods if FINALIZER in (pod["metadata"].get("finalizers") or [])]
    _edit(store, stuck, lambda pod: pod["metadata"]["finalizers"].remove(FINALIZER))
    if node is None:
        access.errors.clear()


def _edit(store, pods, edit):
    with store.acting("scenario"):
        for pod in pods:
            store.mutate("pods", pod["metadata"]["name"], edit, pod["metadata"]["namespace"])
