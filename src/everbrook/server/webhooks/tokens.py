"""Tokens for callbacks and claims: who holds one was given this wake of this subscription (§7.1, §7.2, §12.9).

The rule: a token says nothing about the present. It proves for which subscription, generation and wake it was issued;
whether that wake is still the current one is the subscription's to say.
"""

import jwt
import msgspec
from msgspec import Struct

from everbrook.protocol.errors import TokenExpired, TokenInvalid

ALGORITHM = "HS256"
SECRET_BYTES = 32
MAX_TOKEN_BYTES = 4096


class Grant(Struct, frozen=True):
    """What a token was issued for."""

    subscription: str
    generation: int
    wake_id: str
    expires_at_secs: int


class _Claims(Struct, frozen=True):
    sub: str
    gen: int
    wake: str
    exp: int


class Tokens:
    """Issues and checks tokens under one secret."""

    def __init__(self, secret: bytes) -> None:
        """Take at least 32 secret bytes, from a source of randomness for secrets or from storage."""
        if len(secret) < SECRET_BYTES:
            raise ValueError(f"a secret for tokens has at least {SECRET_BYTES} bytes, got {len(secret)}")
        self._secret = secret

    def issue(self, subscription: str, generation: int, wake_id: str, expires_at_secs: int) -> str:
        """Give a token for one wake. `subscription` is a name that no other one has, or will have."""
        claims = _Claims(subscription, generation, wake_id, expires_at_secs)
        return jwt.encode(msgspec.to_builtins(claims), self._secret, ALGORITHM)

    def check(self, token: str, subscription: str, now_secs: int) -> Grant:
        """Give what a token was issued for, or raise TokenInvalid or TokenExpired."""
        grant = self.read(token)
        if grant.subscription != subscription:
            raise TokenInvalid("the token is for another subscription")
        if now_secs >= (expires_at := grant.expires_at_secs):
            raise TokenExpired(f"the token was good until {expires_at}, it is {now_secs} now (seconds since 1970)")
        return grant

    def read(self, token: str) -> Grant:
        """Give what a token was issued for at some time, or raise TokenInvalid."""
        if len(token) > MAX_TOKEN_BYTES:
            raise TokenInvalid(f"a token has at most {MAX_TOKEN_BYTES} characters, got {len(token)}")
        try:
            payload = jwt.decode_complete(token, self._secret, [ALGORITHM], options=_SIGNATURE_ONLY)["payload"]
            claims = msgspec.convert(payload, _Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError, RecursionError):
            raise TokenInvalid("the token was not issued by this server") from None
        return Grant(claims.sub, claims.gen, claims.wake, claims.exp)


# The time is an argument here, so the library, which would ask the clock, is not to look at it.
_SIGNATURE_ONLY: jwt.types.Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
