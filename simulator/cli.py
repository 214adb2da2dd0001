# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m simulator: serve a simulated cluster, or run one command against one."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from simulator import scenario as scenarios
from simulator.host import Host

DEFAULT_PORT = 8900
DEFAULT_KUBECONFIG = Path(__file__).resolve().parent.parent / ".sim" / "kubeconfig"
VIOLATED = 3


def parser():
    top = argparse.ArgumentParser(
        prog="python -m simulator",
        description="A simulated Kubernetes cluster of GPU nodes, on this machine only.",
    )
    commands = top.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    known = ", ".join(scenarios.names())
    shared.add_argument(
        "--scenario", default="four-h100", help=f"a scenario file, or one of: {known} (default four-h100)"
    )
    shared.add_argument(
        "--kubeconfig", default=str(DEFAULT_KUBECONFIG), help="where to write the kubeconfig (default .sim/kubeconfig)"
    )
    shared.add_argument(
        "--speed", type=_speed, default=1.0, metavar="X", help="simulated seconds in a real second (default 1)"
    )
    shared.add_argument("--seed", type=int, default=0, help="another number gives other noise in the measurements")
    shared.add_argument("--no-page", action="store_true", help="serve the API and /sim only, no web page")
    serve = commands.add_parser("serve", parents=[shared], help="serve until it is ended (Ctrl-C)")
    serve.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"port on 127.0.0.1, 0 for any free one (default {DEFAULT_PORT})"
    )
    serve.add_argument("--ready-file", help="written, with the address, once all nodes are Ready and all workloads run")
    run = commands.add_parser(
        "run",
        parents=[shared],
        help="serve, run a command against it, end",
        description="Runs COMMAND with KUBECONFIG and K8S_AUTH_KUBECONFIG set. Exit code: the command's, "
        f"or {VIOLATED} when it succeeded but the observer saw a violation.",
    )
    run.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free one)")
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command and its arguments")
    return top


def _speed(text):
    value = float(text)
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1000")
    return value


def main(argv=None):
    options = parser().parse_args(argv)
    try:
        scenario = scenarios.load(options.scenario)
    except scenarios.BadScenario as error:
        print(f"simulator: {error} Nothing was started.", file=sys.stderr)
        return 2
    if options.command == "run":
        options.words = options.words[1:] if options.words[:1] == ["--"] else options.words
        if not options.words:
            print("simulator: run needs a command: python -m simulator run -- COMMAND", file=sys.stderr)
            return 2
    return asyncio.run(_main(options, scenario))


async def _main(options, scenario):
    host = Host(scenario, options.speed, options.seed)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    try:
        await host.start(options.port)
    except OSError as error:
        print(
            f"simulator: port {options.port} cannot be used ({error.strerror}). Another simulator may be running; "
            "choose another with --port.",
            file=sys.stderr,
        )
        return 2
    try:
        host.write_kubeconfig(options.kubeconfig)
        if options.command == "serve":
            return await _serve(host, options, stop)
        return await _run(host, options, stop)
    finally:
        await host.stop()


async def _serve(host, options, stop):
    gpus = sum(1 for node in host.scenario.nodes if node.gpus)
    print(f"Simulated cluster {host.scenario.name} at {host.url}, {gpus} GPU nodes, speed {options.speed:g}.")
    print(f"  export KUBECONFIG={options.kubeconfig}", flush=True)
    settling = asyncio.ensure_future(host.settled())
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({settling, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if settling.done() and settling.exception():
        print(f"simulator: {settling.exception()}", file=sys.stderr)
        return 1
    if settling.done():
        print(
            "  All nodes are Ready and all workloads run. Next:\n"
            "  ansible-playbook playbooks/install.yml && ansible-playbook playbooks/upgrade.yml -i inventories/demo "
            "-e gpuops_change=driver -e gpuops_driver_version=580.95.05",
            flush=True,
        )
        if options.ready_file:
            host.write_ready_file(options.ready_file, options.kubeconfig)
    else:
        settling.cancel()
    await stopped
    return 0


async def _run(host, options, stop):
    await host.settled()
    path = os.path.abspath(options.kubeconfig)
    environment = {**os.environ, "KUBECONFIG": path, "K8S_AUTH_KUBECONFIG": path, "GPUOPS_SIMULATOR_URL": host.url}
    try:
        process = await asyncio.create_subprocess_exec(*options.words, env=environment, start_new_session=True)
    except OSError as error:
        print(f"simulator: {options.words[0]} cannot be started: {error.strerror}", file=sys.stderr)
        return 127
    ended = asyncio.ensure_future(process.wait())
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    code = await ended
    violations = host.cluster.observer.violations
    for violation in violations:
        print(f"violation: {violation['rule']}: {violation['message']} (by {violation['actor']})", file=sys.stderr)
    return VIOLATED if violations and code == 0 else code
