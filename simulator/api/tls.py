# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A certificate authority and server certificate of the simulated cluster's own, and its kubeconfig."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import ssl
import tempfile

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_certificates():
    """(CA in PEM, server certificate chain in PEM, server key in PEM) for 127.0.0.1, ::1 and localhost, a year long."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpuops simulator CA")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpuops simulator")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(issuer, issuer, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName(
        [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
        ]
    )
    server = (
        _builder(subject, issuer, server_key.public_key())
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return authority.public_bytes(pem), server.public_bytes(pem) + authority.public_bytes(pem), key


def _builder(subject, issuer, public_key):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=365))
    )


def _usage(sign_certificates):
    off = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(digital_signature=True, key_cert_sign=sign_certificates, crl_sign=sign_certificates, **off)


def server_context(chain, key):
    """An SSL context; ssl reads certificates from files only, so they lie in a private folder for that moment."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, data in (("chain.pem", chain), ("key.pem", key)):
            path = os.path.join(folder, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(data)
            paths.append(path)
        context.load_cert_chain(*paths)
    return context


def write_kubeconfig(path, url, authority, token):
    """Mode 0600, written beside and moved into place, so that a reader never sees half of it."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "simulator",
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()},
            }
        ],
        "users": [{"name": "simulator", "user": {"token": token}}],
        "contexts": [{"name": "simulator", "context": {"cluster": "simulator", "user": "simulator"}}],
        "current-context": "simulator",
    }
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    beside = f"{path}.{os.getpid()}"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        yaml.safe_dump(content, file)
    os.replace(beside, path)
