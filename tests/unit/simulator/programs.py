# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of a simulated machine, run to their end in fast motion."""

from __future__ import annotations

import asyncio

from simulator.clock import Clock
from simulator.nodes.gpus import make_machine

SPEED = 10_000


def machine(name="gpu-node-a", gpus=8, driver="580.95.05", seed=0):
    return make_machine(name, gpus, driver, "NVIDIA-H100-80GB-HBM3", seed)


def run(tool, command, on=None, busy=False, limit_s=5):
    """(exit code, what was printed, [what was printed when]); exit code None when it does not end in limit_s seconds."""
    printed = []

    async def play():
        try:
            async with asyncio.timeout(limit_s):
                return await tool.play(command.split(), on or machine(), Clock(SPEED), printed.append, busy)
        except TimeoutError:
            return None

    code = asyncio.run(play())
    return code, "".join(printed), printed
