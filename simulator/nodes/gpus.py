# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machines under the nodes: their GPUs, the driver they have loaded, and what is broken about them."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field

BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
# Faults of hardware and of what runs on it, and the fields each may carry.
FAULTS = {
    "xid": {"xid": int, "gpu": int},
    "weak_nvlink": {"gpu": int},
    "memory_fail": {"gpu": int},
    "hung_diag": {},
    "no_return": {},
    "driver_crashloop": {},
    "validator_stuck": {},
}
# Xids after which the device plugin calls a GPU unhealthy (NVIDIA/k8s-device-plugin ignores 13 31 43 45 68 109).
APPLICATION_XIDS = (13, 31, 43, 45, 68, 109)


@dataclass
class Gpu:
    index: int
    uuid: str
    serial: str
    bus: str
    healthy: bool = True
    xids: list = field(default_factory=list)

    @property
    def lost(self):
        """Fallen off the bus: no tool sees it any more."""
        return 79 in self.xids


@dataclass
class Machine:
    """driver: loaded version, None while unloaded. changes: what was done to it, oldest first, see `note`."""

    name: str
    gpus: list
    driver: str | None
    product: str = "NVIDIA-H100-80GB-HBM3"
    boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    alive: bool = True
    faults: dict = field(default_factory=dict)
    changes: list = field(default_factory=list)
    seed: int = 0
    watchers: list = field(default_factory=list, repr=False)

    def note(self, kind, by, at, **what):
        """Write down what was done: kind driver, mig, firmware, reset, reboot or wipe; by an actor; at a time stamp."""
        entry = {"kind": kind, "by": by, "at": at, **what}
        self.changes.append(entry)
        for watcher in self.watchers:
            watcher(self, entry)

    def visible(self):
        return [gpu for gpu in self.gpus if not gpu.lost]

    def healthy(self):
        return [gpu for gpu in self.gpus if gpu.healthy]

    def inject(self, kind, parameters):
        """Raises KeyError for an unknown kind, ValueError for a wrong field."""
        check_fault(kind, parameters, self.name, len(self.gpus))
        gpu = parameters.get("gpu", 0)
        self.faults[kind] = {"gpu": gpu, **parameters} if "gpu" in FAULTS[kind] else dict(parameters)
        if kind == "xid":
            self.faults[kind].setdefault("xid", 79)
            self.gpus[gpu].xids.append(self.faults[kind]["xid"])
            if self.faults[kind]["xid"] not in APPLICATION_XIDS:
                self.gpus[gpu].healthy = False

    def clear(self):
        self.faults.clear()
        self.alive = True
        for gpu in self.gpus:
            gpu.healthy = True
            gpu.xids.clear()

    def noise(self, *words):
        """A number in [-1, 1) that is the same for the same machine, seed and words."""
        text = ":".join(map(str, (self.seed, self.name, *words)))
        return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**31 - 1


def check_fault(kind, parameters, name, gpus):
    """Whether a machine of that name and number of GPUs can have the fault: KeyError (kind) or ValueError (fields)."""
    allowed = FAULTS[kind]
    for field_name, value in parameters.items():
        if field_name not in allowed or not isinstance(value, allowed[field_name]) or isinstance(value, bool):
            listed = ", ".join(f"{n} (a number)" for n in allowed) or "no fields"
            raise ValueError(f"fault {kind} takes {listed}, not {field_name}={value!r}")
    if not gpus:
        raise ValueError(f"{name} has no GPUs; fault {kind} needs a node with some")
    if not 0 <= parameters.get("gpu", 0) < gpus:
        raise ValueError(f"{name} has GPUs 0 to {gpus - 1}, not {parameters['gpu']}")
    if not 1 <= parameters.get("xid", 1) < 1000:
        raise ValueError(f"fault {kind}: there is no Xid {parameters['xid']}")


def make_machine(name, gpus, driver, product, seed):
    digest = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 10**6
    cards = [
        Gpu(
            index=i,
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{name}/{i}')}",
            serial=f"165{digest:06d}{i + 1:04d}",
            bus=BUSES[i % len(BUSES)],
        )
        for i in range(gpus)
    ]
    return Machine(name, cards, driver if gpus else None, product, seed=seed)


class Machines(dict):
    """Machines by node name. watchers: called with (machine, entry) for whatever is noted on one of them."""

    def __init__(self):
        super().__init__()
        self.watchers = []

    def __setitem__(self, name, machine):
        machine.watchers = self.watchers
        super().__setitem__(name, machine)
