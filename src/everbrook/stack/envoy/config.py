"""What Envoy is told, from `envoy.yaml` and where things are. Every value is put in as JSON, which YAML reads too."""

import json
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple
from urllib.parse import urlsplit

IDENTITY_HEADER = "x-jwt-sub"
SUBJECT = r"[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?"
TEST_NAME = "everbrook-test"
IDLE_TIMEOUT_SECS = 120.0

_TYPES = "type.googleapis.com/envoy.extensions.transport_sockets"
_PORTS = {"http": 80, "https": 443}


class Edge(NamedTuple):
    """Where Envoy listens, whom it believes, and what is behind it.

    `identity_header` is the one by which the server is told whose request it is; what clients send under its name is
    dropped. With `cert_path` and `key_path` it speaks https. `server_ca_path` are the authorities that it believes
    about a server that does.
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
        """How it is reached from this machine."""
        return f"{'https' if self.cert_path else 'http'}://127.0.0.1:{self.port}"


def format_config(edge: Edge) -> str:
    """Write the configuration."""
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
    template = files("everbrook.stack.envoy").joinpath("envoy.yaml").read_text(encoding="utf-8")
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
    return _socket("tls", "tls.v3.UpstreamTlsContext", common_tls_context=common, **({} if numeric else {"sni": host}))
