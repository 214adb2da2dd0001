# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller is killed at a random moment; the same command, run again, finishes the work."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from tests.simulated.serving import GPU_NODES

pytestmark = pytest.mark.scenario("four-h100", speed=100)
QUICK = range(2)
SOAK = range(100, 120)


def seeds():
    return [*QUICK, *(pytest.param(seed, marks=pytest.mark.soak) for seed in SOAK)]


@pytest.mark.parametrize("seed", seeds())
def test_killed_at_a_random_moment(cluster, product, seed):
    after_s = random.Random(seed).uniform(2, 45)
    process = product.start_upgrade()
    with contextlib.suppress(Exception):
        process.wait(after_s)
    # The controller alone: its workers live on as orphans, as they do when it runs out of memory.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    run = product.upgrade()
    assert run.returncode == 0, f"killed after {after_s:.1f} s\n{run.stdout[-6000:]}"
    for name in GPU_NODES:
        assert product.is_upgraded(name)
        assert product.records(name)[-1]["spec"]["verdict"] == "pass"
        assert "nvidia.com/gpu-driver-upgrade.skip" not in product.labels(name)
    assert cluster.violations == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_cancelled_run_is_gone_on_with(cluster, product, how):
    process = product.start_upgrade("--limit", "gpu-node-a,gpu-node-b")
    time.sleep(7)
    process.send_signal(how)
    process.wait(30)
    assert process.returncode != 0
    run = product.upgrade("--limit", "gpu-node-a,gpu-node-b")
    assert run.returncode == 0, run.stdout
    assert all(map(product.is_upgraded, GPU_NODES[:2]))
    assert cluster.violations == []
