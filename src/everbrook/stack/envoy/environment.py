"""What Envoy takes from the settings of the server: in the stack it is the edge, so TLS and issuers are its business.

The server behind it speaks plain http, to this machine only. Its TLS settings are taken out of the environment, so that
the other parts find it as ever.
"""

import os
from collections.abc import Collection, MutableMapping

from everbrook.settings import load_settings
from everbrook.settings.sections.auth import ANY_AUDIENCE
from everbrook.stack.envoy.config import IDENTITY_HEADER
from everbrook.stack.errors import WrongParts
from everbrook.stack.site import Told

CA = "EVERBROOK_CA"
_PLAIN = {
    "DS_TLS__CERT_PATH": "",
    "DS_TLS__KEY_PATH": "",
    "DS_TLS__CLIENT_CERTIFICATES": "off",
    "DS_TLS__CLIENT_CA_PATH": "",
}


def settings_for_envoy(environment: MutableMapping[str, str], chosen: Collection[str]) -> Told:
    """Give what Envoy is told, and leave an environment in which the stack's server speaks http."""
    settings = load_settings(environ=environment)
    tls, auth, told = settings.tls, settings.auth, Told()
    if tls.configured and "server" in chosen and "envoy" not in chosen:
        raise WrongParts(
            "tls.cert_path is set, but it is Envoy that encrypts in a stack, and Envoy is left out: "
            "leave it in, or run `everbrook serve`"
        )
    if tls.configured:
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
