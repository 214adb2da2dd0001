# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults on demand: which bodies are taken, and what the others are told."""

from __future__ import annotations

import pytest

from simulator import faults

GPUS = {"a": 8, "cpu": 0}

TAKEN = [
    {"kind": "xid", "node": "a"},
    {"kind": "xid", "node": "a", "xid": 48, "gpu": 7},
    {"kind": "weak_nvlink", "node": "a", "gpu": 3},
    {"kind": "memory_fail", "node": "a"},
    {"kind": "hung_diag", "node": "a"},
    {"kind": "no_return", "node": "a"},
    {"kind": "driver_crashloop", "node": "a"},
    {"kind": "validator_stuck", "node": "a"},
    {"kind": "api_error", "verb": "create", "resource": "pods/eviction", "status": 429, "times": 3, "retry_after": 2},
    {"kind": "api_error", "verb": "*", "resource": "*", "status": 503},
    {"kind": "stuck_finalizer", "namespace": "default", "pod": "p"},
    {"kind": "stuck_finalizer", "node": "a"},
]


@pytest.mark.parametrize("body", TAKEN, ids=[str(body) for body in TAKEN])
def test_taken(body):
    assert faults.checked(body, GPUS) == body


REFUSED = [
    ([], "kind must be one of xid,"),
    ({"kind": "fire", "node": "a"}, "kind must be one of xid,"),
    ({"kind": ["xid"], "node": "a"}, "kind must be one of xid,"),
    ({"kind": "xid"}, "node must be one of a, cpu, not None"),
    ({"kind": "xid", "node": "b"}, "node must be one of a, cpu, not 'b'"),
    ({"kind": "xid", "node": ["a"]}, "node must be one of a, cpu"),
    ({"kind": "xid", "node": "cpu"}, "cpu has no GPUs"),
    ({"kind": "xid", "node": "a", "gpu": 8}, "a has GPUs 0 to 7, not 8"),
    ({"kind": "xid", "node": "a", "gpu": -1}, "a has GPUs 0 to 7, not -1"),
    ({"kind": "xid", "node": "a", "gpu": True}, "xid takes xid (a number), gpu (a number), not gpu=True"),
    ({"kind": "xid", "node": "a", "xid": 0}, "there is no Xid 0"),
    ({"kind": "no_return", "node": "a", "gpu": 1}, "no_return takes no fields, not gpu=1"),
    ({"kind": "api_error", "verb": "get", "status": 500}, "api_error needs resource"),
    ({"kind": "api_error", "verb": "GET", "resource": "pods", "status": 500}, "verb must be one of get, list"),
    ({"kind": "api_error", "verb": "get", "resource": "pods", "status": 200}, "status must be between 400 and 599"),
    ({"kind": "api_error", "verb": "get", "resource": "pods", "status": "500"}, "not status='500'"),
    ({"kind": "api_error", "verb": "get", "resource": "pods", "status": 500, "times": 0}, "times must be at least 1"),
    ({"kind": "api_error", "verb": "get", "resource": "pods", "status": 500, "node": "a"}, "not node='a'"),
    ({"kind": "stuck_finalizer"}, "takes namespace and pod, or node"),
    ({"kind": "stuck_finalizer", "pod": "p"}, "takes namespace and pod, or node"),
    ({"kind": "stuck_finalizer", "node": "a", "pod": "p"}, "takes namespace and pod, or node"),
]


@pytest.mark.parametrize(("body", "says"), REFUSED, ids=[str(body) for body, _says in REFUSED])
def test_refused(body, says):
    with pytest.raises(ValueError) as refused:
        faults.checked(body, GPUS)
    assert says in str(refused.value)
