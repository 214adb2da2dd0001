# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Time in the simulated cluster: durations are compressed, time stamps are real."""

from __future__ import annotations

import asyncio
import datetime


class Clock:
    """speed: how many simulated seconds pass in one real second."""

    def __init__(self, speed: float = 1.0):
        if speed <= 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self.speed = speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)

    def call_later(self, seconds: float, callback, *args) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds / self.speed, callback, *args)

    def monotonic(self) -> float:
        """Simulated seconds since some moment in the past."""
        return asyncio.get_running_loop().time() * self.speed

    @staticmethod
    def now() -> datetime.datetime:
        return datetime.datetime.now(datetime.timezone.utc)

    def stamp(self) -> str:
        """metav1.Time: seconds."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def micro(self) -> str:
        """metav1.MicroTime."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
