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
import tempfile
from pathlib import Path

from simulator import scenario as scenarios
from simulator.host import Host

DEFAULT_PORT = 8900
DEFAULT_KUBECONFIG = Path(__file__).resolve().parent.parent / ".sim" / "kubeconfig"
REFUSED, VIOLATED, NOT_STARTED, INTERRUPTED = 2, 3, 127, 130


def parser():
    top = argparse.ArgumentParser(
        prog="python -m simulator",
        description="A simulated Kubernetes cluster of GPU nodes, on this machine only. Beside the Kubernetes API it "
        "serves /sim/state, /sim/events, /sim/faults, /sim/requests, /sim/violations and /sim/reset.",
    )
    commands = top.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    known = ", ".join(scenarios.names())
    shared.add_argument(
        "--scenario", default="four-h100", help=f"a scenario file, or one of: {known} (default four-h100)"
    )
    shared.add_argument(
        "--speed", type=_speed, default=1.0, metavar="X", help="simulated seconds in a real second (default 1)"
    )
    shared.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another number gives other noise in the measurements"
    )
    shared.add_argument("--no-page", action="store_true", help="serve the API and /sim only, no web page")
    serve = commands.add_parser("serve", parents=[shared], help="serve until it is ended (Ctrl-C)")
    serve.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"port on 127.0.0.1, 0 for any free one (default {DEFAULT_PORT})",
    )
    serve.add_argument(
        "--kubeconfig",
        default=str(DEFAULT_KUBECONFIG),
        metavar="FILE",
        help="where to write the kubeconfig (default .sim/kubeconfig of the checkout)",
    )
    serve.add_argument(
        "--ready-file",
        metavar="FILE",
        help="written once all nodes are Ready and all workloads run: JSON with url, kubeconfig and pid",
    )
    run = commands.add_parser(
        "run",
        parents=[shared],
        help="serve, run a command against it, end",
        usage="%(prog)s [options] -- COMMAND [ARGUMENT ...]",
        description="Runs COMMAND with KUBECONFIG, K8S_AUTH_KUBECONFIG and GPUOPS_SIMULATOR_URL set, once all "
        f"workloads run. Exit code: the command's, or {VIOLATED} when it succeeded but the observer saw a violation.",
    )
    run.add_argument("--port", type=_port, default=0, metavar="N", help="port on 127.0.0.1 (default: any free one)")
    run.add_argument(
        "--kubeconfig", metavar="FILE", help="where to write the kubeconfig (default: a file removed at the end)"
    )
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command and its arguments")
    return top


def _speed(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and at most 1000")
    return value


def _port(text):
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def main(argv=None):
    options = parser().parse_args(argv)
    if options.command == "run":
        options.words = options.words[1:] if options.words[:1] == ["--"] else options.words
        if not options.words:
            return _refuse("run needs a command: python -m simulator run -- COMMAND", REFUSED)
    try:
        scenario = scenarios.load(options.scenario)
        return asyncio.run(_main(options, scenario))
    except scenarios.BadScenario as error:
        return _refuse(f"{error} Nothing was started.", REFUSED)


def _refuse(text, code):
    print(f"simulator: {text}", file=sys.stderr, flush=True)
    return code


async def _main(options, scenario):
    host = Host(scenario, options.speed, options.seed)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    try:
        try:
            await host.start(options.port)
        except OSError as error:
            return _refuse(
                f"port {options.port} of 127.0.0.1 cannot be used ({error.strerror or error}). "
                "Another simulator may be running; choose another with --port, or any free one with --port 0.",
                REFUSED,
            )
        with contextlib.ExitStack() as files:
            if not options.kubeconfig:
                folder = files.enter_context(tempfile.TemporaryDirectory(prefix="simulator-"))
                options.kubeconfig = os.path.join(folder, "kubeconfig")
            try:
                host.write_kubeconfig(options.kubeconfig)
            except OSError as error:
                return _refuse(f"the kubeconfig {options.kubeconfig} cannot be written: {error.strerror}.", REFUSED)
            return await (_serve if options.command == "serve" else _run)(host, options, stop)
    finally:
        await host.stop()


async def _settle(host, stop):
    """True once the cluster is at rest, False when we were told to end before. Raises TimeoutError."""
    settling = asyncio.ensure_future(host.settled())
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({settling, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not settling.done():
        settling.cancel()
        return False
    settling.result()
    return True


async def _serve(host, options, stop):
    if options.ready_file:
        # One of an earlier process would say that this one is ready.
        Path(options.ready_file).unlink(missing_ok=True)
    gpus = sum(1 for node in host.scenario.nodes if node.gpus)
    print(f"Simulated cluster {host.scenario.name} at {host.url}, {gpus} GPU nodes, speed {options.speed:g}.")
    print(f"  export KUBECONFIG={options.kubeconfig}", flush=True)
    try:
        if not await _settle(host, stop):
            return 0
        if options.ready_file:
            host.write_ready_file(options.ready_file, options.kubeconfig)
    except TimeoutError as error:
        return _refuse(str(error), 1)
    except OSError as error:
        return _refuse(f"the ready file {options.ready_file} cannot be written: {error.strerror}.", REFUSED)
    print(
        "  All nodes are Ready and all workloads run. Next:\n"
        "  ansible-playbook playbooks/install.yml && ansible-playbook playbooks/upgrade.yml -i inventories/demo "
        "-e gpuops_change=driver -e gpuops_driver_version=580.95.05",
        flush=True,
    )
    await stop.wait()
    return 0


async def _run(host, options, stop):
    try:
        if not await _settle(host, stop):
            return INTERRUPTED
    except TimeoutError as error:
        return _refuse(str(error), 1)
    path = os.path.abspath(options.kubeconfig)
    environment = {**os.environ, "KUBECONFIG": path, "K8S_AUTH_KUBECONFIG": path, "GPUOPS_SIMULATOR_URL": host.url}
    try:
        process = await asyncio.create_subprocess_exec(*options.words, env=environment, start_new_session=True)
    except OSError as error:
        return _refuse(f"{options.words[0]} cannot be started: {error.strerror}", NOT_STARTED)
    ended = asyncio.ensure_future(process.wait())
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not ended.done():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    code = await ended
    # A command that a signal ended has the shell's exit code for it.
    code = 128 - code if code < 0 else code
    observer = host.cluster.observer
    for violation in observer.violations:
        print(f"violation: {violation['rule']}: {violation['message']} (by {violation['actor']})", file=sys.stderr)
    for problem in host.cluster.problems:
        print(f"problem of the simulator: {problem}", file=sys.stderr)
    # An observer that failed cannot say that all was well.
    return VIOLATED if (observer.violations or observer.problems) and code == 0 else code
