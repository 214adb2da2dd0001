# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What containers do while they run: serve, train with checkpoints, run for a while, or run a diagnostic program.

Steered by pod annotations (durations in simulated seconds): see simulator/scenarios/README.md.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from dataclasses import dataclass

from simulator.nodes import dcgm, nccl

PREFIX = "simulator.gpuops.io/"
TIMED_OUT = 124
PROGRAMS = {"dcgmi": dcgm.play, "all_reduce_perf": nccl.play}
DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def setting(pod, name, default):
    """A number from a pod annotation."""
    return float((pod["metadata"].get("annotations") or {}).get(PREFIX + name, default))


def text_setting(pod, name, default=""):
    return (pod["metadata"].get("annotations") or {}).get(PREFIX + name, default)


def behaviour(pod):
    return text_setting(pod, "behaviour", "serve")


async def within(clock, seconds, coroutine):
    """The coroutine's result, or asyncio.TimeoutError after simulated seconds (None: no limit)."""
    if seconds is None:
        return await coroutine
    task, timer = asyncio.ensure_future(coroutine), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise asyncio.TimeoutError
    finally:
        task.cancel()
        timer.cancel()


# -- diagnostics
def diagnostic(container):
    """(tool, argv from the tool on, time limit or None) when the container runs one of the GPU programs, else None.

    The tool may stand behind others (`timeout 900 dcgmi …`) or in a shell's text (`sh -c "dcgmi … | tee log"`).
    """
    words = []
    for word in [*(container.get("command") or []), *(container.get("args") or [])]:
        text = str(word)
        words += _shell_words(text) if any(name in text for name in PROGRAMS) and " " in text else [text]
    for i, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name in PROGRAMS:
            end = next((j for j, w in enumerate(words) if j > i and w in ("|", "||", "&&", ";", "&")), len(words))
            return name, words[i:end], _time_limit(words[:i])
    return None


def _shell_words(text):
    splitter = shlex.shlex(text, posix=True, punctuation_chars="|&;")
    splitter.whitespace_split = True
    return list(splitter)


def _time_limit(words):
    """Seconds that `timeout` gives: its last argument that is a duration; options such as -k take one before it."""
    places = [i for i, word in enumerate(words) if word.rpartition("/")[2] == "timeout"]
    found = [match for word in words[places[-1] :] if (match := DURATION.fullmatch(word))] if places else []
    return float(found[-1][1]) * UNITS[found[-1][2]] if found else None


def diagnostic_container(pod):
    """(container name, what diagnostic says) of the first container that runs one, else None."""
    found = ((c["name"], diagnostic(c)) for c in pod["spec"]["containers"])
    return next(((name, what) for name, what in found if what), None)


async def run_diagnostic(found, run, busy, emit=None):
    """Play the program in a pod; its text goes to the pod's log. Returns the exit code."""
    tool, argv, limit = found
    try:
        return await within(run.clock, limit, PROGRAMS[tool](argv, run.machine, run.clock, emit or run.log, busy))
    except asyncio.TimeoutError:
        return TIMED_OUT


# -- training
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
        key = text_setting(pod, "checkpoint-key")
        key = key or f"{pod['metadata']['namespace']}/{pod['metadata'].get('generateName', pod['metadata']['name'])}"
        return self.setdefault(key, Training())


async def train(run, state):
    """Steps until the last one. Returns the exit code."""
    pod, clock = run.pod, run.clock
    steps, step_s = int(setting(pod, "steps", 100_000)), setting(pod, "step-s", 2)
    every = int(setting(pod, "checkpoint-every", 50))
    if state.step:
        lost = state.step - state.checkpoint
        state.resumed += 1
        state.lost_steps += lost
        run.log(f"resuming from step {state.checkpoint}: the last checkpoint ({lost} steps to repeat)")
        state.step = state.checkpoint
    else:
        run.log("starting at step 0")
    while state.step < steps:
        await clock.sleep(step_s)
        state.step += 1
        state.highest = max(state.highest, state.step)
        if state.step % every == 0:
            state.checkpoint = state.step
            run.log(f"step {state.step}: checkpoint saved")
    run.log(f"step {state.step}: finished")
    return 0


async def save_on_sigterm(run, state):
    """The checkpoint that SIGTERM asks for. Cancelled by SIGKILL: what came after the last checkpoint is lost then."""
    needed = setting(run.pod, "checkpoint-s", 30)
    run.log(f"SIGTERM at step {state.step}: saving a checkpoint ({needed:g} s of {run.grace_s:g} s grace)")
    await run.clock.sleep(needed)
    state.checkpoint = state.step
    run.log(f"step {state.step}: checkpoint saved, exiting")
