# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the cluster is and who we are there: options as `kubernetes.core` names them, the official client's means."""

from __future__ import annotations

import os
import traceback

from ansible.module_utils.basic import env_fallback, missing_required_lib

from ansible_collections.gpuops.lifecycle.plugins.module_utils.kube.errors import Unreachable

try:
    from kubernetes import config
    from kubernetes.client.api_client import ApiClient
    from kubernetes.client.configuration import Configuration

    IMPORT_ERROR = None
except ImportError:
    IMPORT_ERROR = traceback.format_exc()


def _option(kind, env, **more):
    return dict(type=kind, fallback=(env_fallback, [env]), **more)


CONNECTION_SPEC = {
    "kubeconfig": _option("path", "K8S_AUTH_KUBECONFIG"),
    "context": _option("str", "K8S_AUTH_CONTEXT"),
    "host": _option("str", "K8S_AUTH_HOST"),
    "api_key": _option("str", "K8S_AUTH_API_KEY", no_log=True),
    "ca_cert": _option("path", "K8S_AUTH_SSL_CA_CERT"),
    "client_cert": _option("path", "K8S_AUTH_CERT_FILE"),
    "client_key": _option("path", "K8S_AUTH_KEY_FILE", no_log=False),
    "validate_certs": _option("bool", "K8S_AUTH_VERIFY_SSL"),
    "proxy": _option("str", "K8S_AUTH_PROXY"),
}


class NoCluster(Unreachable):
    """No usable description of a cluster; the message names the file and what to set."""


def configuration(params):
    """A `kubernetes.client.Configuration` for the options of CONNECTION_SPEC.

    Order: explicit host, `kubeconfig` (or K8S_AUTH_KUBECONFIG), KUBECONFIG, ~/.kube/config, a pod's service account.
    Exec plugins and token refresh are the client's own.
    """
    if IMPORT_ERROR:
        raise NoCluster(missing_required_lib("kubernetes"))
    result = Configuration()
    if not params.get("host"):
        _load(result, params)
    else:
        result.host = params["host"].rstrip("/")
    for option, attribute in (("ca_cert", "ssl_ca_cert"), ("client_cert", "cert_file"), ("client_key", "key_file")):
        if params.get(option):
            setattr(result, attribute, params[option])
    if params.get("proxy"):
        result.proxy = params["proxy"]
    if params.get("validate_certs") is not None:
        result.verify_ssl = params["validate_certs"]
    if params.get("api_key"):
        result.api_key = {"authorization": params["api_key"]}
        result.api_key_prefix = {"authorization": "Bearer"}
        result.refresh_api_key_hook = None
    return result


def _load(result, params):
    named = params.get("kubeconfig") or os.environ.get("KUBECONFIG")
    path = named or os.path.expanduser("~/.kube/config")
    if not named and not os.path.exists(path) and os.environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            config.load_incluster_config(client_configuration=result)
        except config.ConfigException as error:
            raise NoCluster(f"This pod's service account gives no access to its cluster: {error}.") from error
        return
    files = [part for part in path.split(os.pathsep) if part]
    if not any(os.path.exists(part) for part in files):
        raise NoCluster(
            f"There is no kubeconfig at {path}. Set `kubeconfig` (in a play: gpuops_kubeconfig), K8S_AUTH_KUBECONFIG "
            "or KUBECONFIG to the file of the cluster you mean; for the simulated cluster start "
            "`python -m simulator serve --scenario four-h100` first."
        )
    try:
        config.load_kube_config(config_file=path, context=params.get("context"), client_configuration=result)
    except Exception as error:  # the client raises ConfigException, YAML and OS errors alike
        raise NoCluster(f"The kubeconfig {path} cannot be used: {error}.") from error


def pool(settings):
    """The official client's urllib3 pool manager: TLS, client certificates and proxies as it sets them up."""
    return ApiClient(settings).rest_client.pool_manager


def auth_headers(settings):
    """Authorization header for one request; lets the client refresh an expired token first."""
    headers = {}
    for auth in settings.auth_settings().values():
        if auth["in"] == "header" and auth["value"]:
            headers[auth["key"]] = auth["value"]
    return headers
