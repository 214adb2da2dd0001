# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people do with kubectl works on the simulated cluster. kubectl is built from its Go module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid

import pytest

from tests.simulated.serving import ROOT, serving

KUBECTL = ROOT / ".cache" / "kubectl"
pytestmark = pytest.mark.skipif(
    not shutil.which("go") and "CI" not in os.environ,
    reason="Go is needed to build kubectl; in CI its absence is a failure",
)
NODE = "gpu-node-a"
MANIFEST = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "registry.example/web:1"}]},
        },
    },
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("kubectl")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kubectl(cluster, tmp_path_factory):
    subprocess.run([ROOT / "tests/kubectl/build.sh"], check=True)
    environment = {**cluster.environment, "HOME": str(tmp_path_factory.mktemp("home"))}

    def run(*words, given=None, code=0):
        """stdout and stderr together; given: an object on stdin."""
        done = subprocess.run(
            [KUBECTL, *words],
            env=environment,
            input=None if given is None else json.dumps(given),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    return run


@pytest.fixture
def namespace(kubectl):
    name = f"kubectl-{uuid.uuid4().hex[:6]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name)


@pytest.fixture
def web(kubectl, namespace):
    """A rolled out Deployment web; gives `kubectl -n namespace`."""
    kubectl("apply", "-n", namespace, "-f", "-", given=MANIFEST)
    kubectl("rollout", "status", "-n", namespace, "deployment/web", "--timeout=30s")
    return lambda *words, **more: kubectl("-n", namespace, *words, **more)


def heading(text):
    return text.splitlines()[0].split()


def test_version(kubectl):
    assert "Server Version: v1.36" in kubectl("version")


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        (("nodes",), "NAME STATUS ROLES AGE VERSION"),
        (
            ("nodes", "-o", "wide"),
            "NAME STATUS ROLES AGE VERSION INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME",
        ),
        (("pods", "-n", "gpu-operator"), "NAME READY STATUS RESTARTS AGE"),
        (
            ("pods", "-n", "gpu-operator", "-o", "wide"),
            "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES",
        ),
        (("daemonsets", "-n", "monitoring"), "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE"),
        (("deployments", "-n", "inference"), "NAME READY UP-TO-DATE AVAILABLE AGE"),
        (("replicasets", "-n", "inference"), "NAME DESIRED CURRENT READY AGE"),
        (("pdb", "-n", "inference"), "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE"),
        (("leases", "-n", "kube-node-lease"), "NAME HOLDER AGE"),
        (("namespaces",), "NAME STATUS AGE"),
        (("clusterpolicies",), "NAME STATUS AGE"),
    ],
)
def test_tables(kubectl, words, columns):
    assert " ".join(heading(kubectl("get", *words))) == columns


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("node", NODE), "nvidia.com/gpu:     8"),
        (("pod", "-n", "training"), "Controlled By:"),
        (("pdb", "-n", "inference"), "Allowed disruptions:"),
    ],
)
def test_describe(kubectl, words, says):
    assert says in kubectl("describe", *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("label", "node", NODE, "example.com/x=y", "--overwrite"), "labeled"),
        (("label", "node", NODE, "example.com/x-"), "unlabeled"),
        (("annotate", "node", NODE, "example.com/x=y", "--overwrite"), "annotated"),
        (("taint", "node", NODE, "example.com/x=y:NoSchedule"), "tainted"),
        (("taint", "node", NODE, "example.com/x-"), "untainted"),
        (("cordon", NODE), "cordoned"),
        (("uncordon", NODE), "uncordoned"),
        (("auth", "can-i", "create", "pods/eviction"), "yes"),
        (("api-resources",), "poddisruptionbudgets"),
        (("explain", "node.spec"), "FIELD: spec <Object>"),
    ],
)
def test_one_command(kubectl, words, says):
    assert says in kubectl(*words)


def test_cordon_shows(kubectl):
    kubectl("cordon", "cpu-node-1")
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", "cpu-node-1")
    kubectl("uncordon", "cpu-node-1")
    assert "SchedulingDisabled" not in kubectl("get", "node", "cpu-node-1")


def test_apply_says_what_it_did(web):
    assert "unchanged" in web("apply", "-f", "-", given=MANIFEST)
    more = {**MANIFEST, "spec": {**MANIFEST["spec"], "replicas": 3}}
    assert "configured" in web("apply", "-f", "-", given=more)
    assert web("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    assert "serverside-applied" in web("apply", "--server-side", "-f", "-", given=more)


def test_apply_refuses_an_unknown_field(web):
    wrong = {**MANIFEST, "spec": {**MANIFEST["spec"], "replicaz": 3}}
    assert 'unknown field "spec.replicaz"' in web("apply", "-f", "-", given=wrong, code=1)


def test_scale_and_wait(web):
    assert "scaled" in web("scale", "deployment/web", "--replicas=3")
    web("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=30s")
    web("wait", "deployment/web", "--for=condition=Available", "--timeout=30s")


def test_logs(web):
    assert "started" in web("logs", "deployment/web")


def test_delete_waits_until_it_is_gone(web):
    web("delete", "deployment", "web", "--timeout=30s")
    web("wait", "pod", "-l", "app=web", "--for=delete", "--timeout=30s")
    assert "No resources found" in web("get", "pods", "-l", "app=web")


def test_typed_creates(kubectl, namespace):
    """These are sent as protobuf."""
    inside = ("-n", namespace)
    kubectl("create", *inside, "configmap", "c", "--from-literal=a=b")
    kubectl("create", *inside, "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", *inside, "pdb", "p", "--selector=app=web", "--min-available=50%")
    kubectl("create", *inside, "job", "j", "--image=x", "--", "true")
    kubectl("create", *inside, "role", "r", "--verb=get", "--resource=pods")
    assert kubectl("get", *inside, "configmap", "c", "-o", "jsonpath={.data}") == '{"a":"b"}'
    assert kubectl("get", *inside, "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    assert kubectl("get", *inside, "pdb", "p", "-o", "jsonpath={.spec.minAvailable}") == "50%"
    assert (
        kubectl("get", *inside, "job", "j", "-o", "jsonpath={.spec.template.spec.containers[0].command}") == '["true"]'
    )


def test_watch_prints_changes(kubectl, cluster, namespace):
    command = [KUBECTL, "get", "configmaps", "-n", namespace, "-w", "-o", "name"]
    process = subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, text=True)
    try:
        kubectl("create", "-n", namespace, "configmap", "seen", "--from-literal=a=b")
        assert process.stdout.readline().strip() == "configmap/seen"
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def test_drain_and_uncordon(kubectl):
    """Refused by daemons first, then done; the pods come back elsewhere or wait."""
    refused = kubectl("drain", NODE, "--timeout=30s", code=1)
    assert "cannot delete DaemonSet-managed Pods" in refused
    done = kubectl("drain", NODE, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=60s")
    assert f"node/{NODE} drained" in done
    left = json.loads(kubectl("get", "pods", "-A", "--field-selector", f"spec.nodeName={NODE}", "-o", "json"))["items"]
    owners = {ref["kind"] for pod in left for ref in pod["metadata"].get("ownerReferences", [])}
    assert owners == {"DaemonSet"}
    assert "uncordoned" in kubectl("uncordon", NODE)
