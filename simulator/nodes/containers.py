# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What containers do while they run: serve, train with checkpoints, or run a diagnostic program.

Steered by pod annotations (durations in simulated seconds): see simulator/scenarios/README.md.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from simulator.nodes import dcgm, nccl

PREFIX = "simulator.gpuops.io/"
TIMED_OUT, KILLED = 124, 137


def setting(pod, name, default):
    """A number from a pod annotation."""
    return float((pod["metadata"].get("annotations") or {}).get(PREFIX + name, default))


def behaviour(pod):
    return (pod["metadata"].get("annotations") or {}).get(PREFIX + "behaviour", "serve")


def diagnostic(container):
    """(tool, argv from the tool on, time limit or None) when the container runs one of the GPU programs, else None."""
    argv = [str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])]]
    words = argv if len(argv) > 1 else " ".join(argv).split()
    for i, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name in ("dcgmi", "all_reduce_perf"):
            before = [w for w in words[:i] if w.rpartition("/")[2] != "timeout" and not w.startswith("-")]
            timed = any(w.rpartition("/")[2] == "timeout" for w in words[:i])
            return name, words[i:], float(before[-1]) if timed and before else None
    return None


async def run_diagnostic(found, run, busy):
    """Play the program in a pod; its text goes to the pod's log. Returns the exit code."""
    tool, argv, limit = found
    player = dcgm.play if tool == "dcgmi" else nccl.play
    playing = asyncio.ensure_future(player(argv, run.machine, run.clock, run.log, busy))
    try:
        return await asyncio.wait_for(playing, limit / run.clock.speed if limit else None)
    except asyncio.TimeoutError:
        return TIMED_OUT


@dataclass
class Training:
    """What survives a pod of a training job, as a volume would keep it."""

    step: int = 0
    checkpoint: int = 0
    highest: int = 0
    lost_steps: int = 0
    resumed: int = 0


class Trainings(dict):
    """Training by checkpoint key."""

    def of(self, pod):
        key = (pod["metadata"].get("annotations") or {}).get(PREFIX + "checkpoint-key")
        key = key or f"{pod['metadata']['namespace']}/{pod['metadata'].get('generateName', pod['metadata']['name'])}"
        return self.setdefault(key, Training())


async def train(run, state):
    """Steps until the last one, or until the pod is told to stop. Returns the exit code (0 when finished)."""
    pod, clock = run.pod, run.clock
    steps, step_s = int(setting(pod, "steps", 100_000)), setting(pod, "step-s", 2)
    every = int(setting(pod, "checkpoint-every", 50))
    if state.step:
        state.resumed += 1
        state.lost_steps += state.step - state.checkpoint
        run.log(
            f"resuming from the checkpoint of step {state.checkpoint} ({state.step - state.checkpoint} steps to repeat)"
        )
        state.step = state.checkpoint
    else:
        run.log("starting at step 0")
    while state.step < steps:
        try:
            await asyncio.wait_for(run.stopping.wait(), step_s / clock.speed)
            return None
        except asyncio.TimeoutError:
            state.step += 1
            state.highest = max(state.highest, state.step)
        if state.step % every == 0:
            state.checkpoint = state.step
            run.log(f"step {state.step}: checkpoint saved")
    return 0


async def save_on_sigterm(run, state, grace_s):
    """The checkpoint that SIGTERM asks for; what does not fit into the grace is lost. Returns the exit code."""
    needed = setting(run.pod, "checkpoint-s", 30)
    run.log(f"SIGTERM at step {state.step}: saving a checkpoint ({needed:g} s of {grace_s:g} s grace)")
    await run.clock.sleep(min(needed, grace_s))
    if needed > grace_s:
        run.log("killed before the checkpoint was written")
        return KILLED
    state.checkpoint = state.step
    run.log(f"step {state.step}: checkpoint saved, exiting")
    return 143
