# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m simulator as its user meets it: help, refusals, run, ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys

import pytest

from tests.contract.api import until
from tests.simulated.serving import ROOT, serving

SPEED = ("--speed", "100")


def simulator(*words, **more):
    command = [sys.executable, "-m", "simulator", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, **more)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("serve", ["--scenario", "--port", "--kubeconfig", "--ready-file", "--speed", "--seed", "--no-page"]),
        ("run", ["--scenario", "--port", "--kubeconfig", "--speed", "--seed", "--no-page", "-- COMMAND"]),
    ],
)
def test_help_describes_every_option(command, options):
    said = simulator(command, "--help").stdout
    for option in options:
        assert option in said
    assert "four-h100" in said


REFUSALS = [
    ("an unknown scenario", ["serve", "--scenario", "five"], "There is no scenario"),
    ("a speed of nought", ["serve", "--speed", "0"], "'0' is not a number above 0"),
    ("a speed in words", ["serve", "--speed", "fast"], "'fast' is not a number above 0"),
    ("a port that is none", ["serve", "--port", "70000"], "'70000' is not a port"),
    ("nothing to run", ["run", "--"], "run needs a command"),
    ("no command", [], "required: command"),
]


@pytest.mark.parametrize(("why", "words", "says"), REFUSALS, ids=[case[0] for case in REFUSALS])
def test_refused(why, words, says):
    found = simulator(*words)
    assert (found.returncode, found.stdout) == (2, "")
    assert says in found.stderr
    assert "Traceback" not in found.stderr


def test_a_malformed_scenario_is_one_paragraph_and_starts_nothing(tmp_path):
    file = tmp_path / "broken.yml"
    file.write_text("nodes:\n  - name: a\n    gpu: 8\n")
    found = simulator("serve", "--scenario", file, "--port", 0, "--kubeconfig", tmp_path / "kubeconfig")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        f"simulator: {file}: nodes[0] has an unknown key 'gpu'; a node has name, gpus, product, labels, driver, zone, "
        "count. Nothing was started.\n"
    )
    assert not (tmp_path / "kubeconfig").exists()


def test_a_workload_the_cluster_refuses_starts_nothing(tmp_path):
    file = tmp_path / "broken.yml"
    file.write_text("nodes: [{name: a}]\nworkloads:\n  - {apiVersion: v9, kind: Pod, metadata: {name: x}, spec: {}}\n")
    found = simulator("run", "--scenario", file, "--", "true")
    assert found.returncode == 2
    assert "workloads[0]" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_port_in_use_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = simulator("serve", "--port", port, "--kubeconfig", tmp_path / "kubeconfig")
    assert found.returncode == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in found.stderr
    assert "--port" in found.stderr
    assert not (tmp_path / "kubeconfig").exists()


def test_a_kubeconfig_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    found = simulator("serve", "--port", 0, "--kubeconfig", tmp_path / "file" / "kubeconfig")
    assert found.returncode == 2
    assert f"the kubeconfig {tmp_path / 'file' / 'kubeconfig'} cannot be written" in found.stderr


def test_a_scenario_that_never_comes_to_rest_says_what_is_missing(tmp_path):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "greedy", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "9"}}}]},
    }
    file = tmp_path / "full.yml"
    file.write_text(json.dumps({"nodes": [{"name": "a"}], "workloads": [pod]}))
    ready = tmp_path / "ready.json"
    ready.write_text("of an earlier simulator")
    short = (
        "import simulator.host as h; h.Host.settled.__defaults__ = (2,); from simulator.cli import main; exit(main())"
    )
    words = [
        "serve",
        *SPEED,
        "--scenario",
        file,
        "--port",
        0,
        "--kubeconfig",
        tmp_path / "kubeconfig",
        "--ready-file",
        ready,
    ]
    command = [sys.executable, "-c", short, *map(str, words)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 1
    assert not ready.exists()
    assert "did not come to rest within 2 s: pod default/greedy is not scheduled" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serve_says_when_it_is_ready_and_ends_cleanly(tmp_path, how):
    with serving(tmp_path, speed=100) as cluster:
        ready = json.loads((tmp_path / "ready.json").read_text())
        kubeconfig = tmp_path / "kubeconfig"
        assert ready == {"url": cluster.url, "kubeconfig": str(kubeconfig), "pid": cluster.process.pid}
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        assert cluster.get("/sim/state")["settled"] is True
        assert until(lambda: "All nodes are Ready" in cluster.output, 5)
        assert f"export KUBECONFIG={kubeconfig}" in cluster.output
        with cluster.events():  # an open stream must not keep it
            cluster.process.send_signal(how)
            assert cluster.process.wait(10) == 0


PROBE = """
import json, os, ssl, urllib.request
url = os.environ["GPUOPS_SIMULATOR_URL"]
found = urllib.request.urlopen(url + "/sim/state", context=ssl._create_unverified_context())
print(json.load(found)["settled"], os.environ["KUBECONFIG"] == os.environ["K8S_AUTH_KUBECONFIG"], os.environ["KUBECONFIG"])
"""


def test_run_waits_until_all_runs_and_cleans_up():
    found = simulator("run", *SPEED, "--", sys.executable, "-c", PROBE)
    assert found.returncode == 0, found.stderr
    settled, same, kubeconfig = found.stdout.split()
    assert (settled, same) == ("True", "True")
    assert not os.path.exists(kubeconfig)


@pytest.mark.parametrize(("command", "code"), [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137)])
def test_run_ends_with_the_code_of_its_command(command, code):
    assert simulator("run", *SPEED, "--", *command).returncode == code


def test_run_names_a_command_that_is_not_there():
    found = simulator("run", *SPEED, "--", "no-such-command")
    assert found.returncode == 127
    assert "no-such-command cannot be started: No such file or directory" in found.stderr


CARELESS = """
import base64, json, os, ssl, urllib.request, yaml
config = yaml.safe_load(open(os.environ["KUBECONFIG"]))
authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
url, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
def call(method, path):
    request = urllib.request.Request(url + path, method=method, headers={"Authorization": "Bearer " + token})
    return json.load(urllib.request.urlopen(request, context=ssl.create_default_context(cadata=authority)))
pods = "/api/v1/namespaces/inference/pods"
for pod in call("GET", pods + "?labelSelector=app%3Dvllm-chat")["items"]:
    call("DELETE", pods + "/" + pod["metadata"]["name"])
"""


def test_run_fails_on_violations_of_a_command_that_succeeded():
    found = simulator("run", *SPEED, "--", sys.executable, "-c", CARELESS)
    assert found.returncode == 3, found.stderr
    assert "violation: pdb-broken: " in found.stderr
    assert "(by Python-urllib/" in found.stderr


def test_run_passes_an_end_on_to_its_command(tmp_path):
    mark = tmp_path / "mark"
    script = f"trap 'echo ended > {mark}; exit 5' TERM; echo up > {mark}; while :; do sleep 0.1; done"
    command = [sys.executable, "-m", "simulator", "run", *SPEED, "--", "sh", "-c", script]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    assert until(mark.exists, 30)
    process.terminate()
    assert process.wait(15) == 5
    process.stderr.close()
    assert mark.read_text() == "ended\n"
