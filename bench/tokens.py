"""Tokens (JWT) for a server that asks for them: an issuer with one key, and one token that may do everything."""

import time
from collections.abc import Mapping
from pathlib import Path

from everbrook.server.auth.key_pair import make_pair, save_pair

ISSUER = "bench"
_LIFETIME_SECS = 3600


def token_headers(folder: Path) -> Mapping[str, str]:
    """Write the key set `jwks.json` of a new issuer into a folder, and return the header with its token."""
    pair = make_pair()
    save_pair(pair, folder)
    expires = int(time.time()) + _LIFETIME_SECS
    claims = {"iss": ISSUER, "aud": ISSUER, "sub": "bench", "scope": "admin:/", "exp": expires}
    return {"Authorization": f"Bearer {pair.mint(claims)}"}
