# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Kubeconfig of the cluster.
      - Without it E(K8S_AUTH_KUBECONFIG), E(KUBECONFIG), C(~/.kube/config) and, in a pod, its service account are tried
        in this order.
    type: path
  context:
    description:
      - Context of the kubeconfig. Also E(K8S_AUTH_CONTEXT).
    type: str
  host:
    description:
      - Address of the API server, instead of a kubeconfig. Also E(K8S_AUTH_HOST).
    type: str
  api_key:
    description:
      - Bearer token. Also E(K8S_AUTH_API_KEY).
    type: str
  ca_cert:
    description:
      - File with the certificate authority of the API server. Also E(K8S_AUTH_SSL_CA_CERT).
    type: path
  client_cert:
    description:
      - File with a client certificate. Also E(K8S_AUTH_CERT_FILE).
    type: path
  client_key:
    description:
      - File with the key of O(client_cert). Also E(K8S_AUTH_KEY_FILE).
    type: path
  validate_certs:
    description:
      - Whether the API server's certificate is checked. Also E(K8S_AUTH_VERIFY_SSL). The default is the kubeconfig's.
    type: bool
  proxy:
    description:
      - Proxy to reach the API server through. Also E(K8S_AUTH_PROXY).
    type: str
requirements:
  - kubernetes (Python client, on the controller)
"""
