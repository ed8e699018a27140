"""Verification of webhooks: signed by the server, recent, and not replayed (§12.10).

The rule: a body is accepted once, as the exact bytes received, under a key of the server's key set. A header in an
unusual spelling is refused, so that a replay can't be disguised as another request.

    receiver = Receiver(Jwks("https://server.example/v1/stream/__ds/jwks.json"))
    receiver.check(request_body, request_headers["Webhook-Signature"])   # raises SignatureInvalid

`AsyncReceiver` with `AsyncJwks` is the same for an event loop.
"""

import heapq
import re
import threading
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from everbrook.client.jwks import KeySet, parse_base64url
from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client._async.receiver import AsyncReceiver
    from everbrook.client._sync.receiver import Receiver

__all__ = ["AsyncReceiver", "Reason", "Receiver", "Replays", "SignatureInvalid", "verify"]

HEADER = "Webhook-Signature"
TOLERANCE_SECS = 300
REMEMBERED = 100_000

_SIGNATURE_BYTES = 64
_MAX_HEADER_CHARACTERS = 1024
_TIMESTAMP = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)

Clock = Callable[[], float]


class Reason(StrEnum):
    """Why a signature is refused."""

    MALFORMED = "malformed"
    STALE = "stale"
    UNKNOWN_KEY = "unknown_key"
    MISMATCH = "mismatch"
    REPLAYED = "replayed"


class SignatureInvalid(Exception):
    """A request was not signed by the server, was signed too long ago, or is a replay. Respond with 401."""

    def __init__(self, reason: Reason, detail: str) -> None:
        """Carry the `reason` for programs, and `detail` for people."""
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Signature(NamedTuple):
    """The parts of the header."""

    timestamp: int
    kid: str
    signature: bytes


def verify(
    body: bytes,
    signature_header: str,
    jwks: Mapping[str, object],
    now: float,
    tolerance_secs: float = TOLERANCE_SECS,
) -> None:
    """Check the signature and time of a body, or raise SignatureInvalid. A Receiver also refuses replays.

    `jwks` is the parsed document that the server publishes, or a KeySet. ValueError is raised if it is neither.
    """
    signed = parse_header(signature_header)
    check_time(signed.timestamp, now, tolerance_secs)
    check_signature(body, signed, jwks if isinstance(jwks, KeySet) else KeySet.parse(jwks))


def parse_header(value: str) -> Signature:
    """Read `t=…,kid=…,ed25519=…` (§7.1). Other parameters are ignored; none may occur twice."""
    if len(value) > _MAX_HEADER_CHARACTERS:
        raise _malformed(f"{HEADER} has {len(value)} characters, at most {_MAX_HEADER_CHARACTERS} were expected")
    parameters: dict[str, str] = {}
    for part in value.split(","):
        name, separator, text = part.strip(" ").partition("=")
        if not separator or name in parameters:
            raise _malformed(f"{HEADER} must be t=…,kid=…,ed25519=…, each once, got {value!a}")
        parameters[name] = text
    timestamp, kid, signature = (parameters.get(name, "") for name in ("t", "kid", "ed25519"))
    if not _TIMESTAMP.fullmatch(timestamp):
        raise _malformed(f"the t of {HEADER} must be seconds since 1970 in decimal digits, got {timestamp!a}")
    if not kid:
        raise _malformed(f"{HEADER} must have a kid, got {value!a}")
    return Signature(int(timestamp), kid, _parse_signature(signature))


def _parse_signature(text: str) -> bytes:
    try:
        decoded = parse_base64url(text)
    except ValueError as error:
        raise _malformed(f"the ed25519 of {HEADER} {error}") from None
    if len(decoded) != _SIGNATURE_BYTES:
        raise _malformed(f"the ed25519 of {HEADER} must be {_SIGNATURE_BYTES} bytes, got {len(decoded)}")
    return decoded


def check_time(timestamp: int, now: float, tolerance_secs: float) -> None:
    if abs(now - timestamp) > tolerance_secs:
        raise SignatureInvalid(
            Reason.STALE, f"signed at {timestamp}, it is {int(now)} now: more than {tolerance_secs:g} s apart"
        )


def check_signature(body: bytes, signed: Signature, keys: KeySet) -> None:
    public = keys.get(signed.kid)
    if public is None:
        raise SignatureInvalid(Reason.UNKNOWN_KEY, f"the server publishes no Ed25519 key {signed.kid!a}")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signed.signature, b"%d.%b" % (signed.timestamp, body))
    except (InvalidSignature, ValueError):
        raise SignatureInvalid(Reason.MISMATCH, "the signature does not match the body, time and key") from None


def _malformed(detail: str) -> SignatureInvalid:
    return SignatureInvalid(Reason.MALFORMED, detail)


class Replays:
    """A bounded set of the signatures that were seen within the tolerance.

    When a signature is forgotten, because of its age or of the bound, every request signed at its time or before counts
    as stale. So a flood, or a clock that was set back, shortens the window, and admits no replay.
    """

    def __init__(self, tolerance_secs: float, remembered: int = REMEMBERED) -> None:
        """Remember at most `remembered` signatures."""
        self._tolerance_secs = tolerance_secs
        self._remembered = remembered
        self._seen: set[Signature] = set()
        self._by_time: list[Signature] = []
        self._forgotten_until = -1
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Count the remembered signatures."""
        return len(self._seen)

    def admit(self, signed: Signature, now: float) -> None:
        """Remember a verified signature, or raise SignatureInvalid if it is a replay."""
        with self._lock:
            while self._by_time and self._by_time[0].timestamp < now - self._tolerance_secs:
                self._forget_oldest()
            self._check(signed)
            self._seen.add(signed)
            heapq.heappush(self._by_time, signed)
            if len(self._by_time) > self._remembered:
                self._forget_oldest()

    def _check(self, signed: Signature) -> None:
        if signed in self._seen:
            raise SignatureInvalid(Reason.REPLAYED, f"a request signed at {signed.timestamp} arrived a second time")
        if signed.timestamp <= self._forgotten_until:
            raise SignatureInvalid(
                Reason.STALE, f"signed at {signed.timestamp}: signatures of that time are no longer remembered"
            )

    def _forget_oldest(self) -> None:
        oldest = heapq.heappop(self._by_time)
        self._seen.discard(oldest)
        self._forgotten_until = oldest.timestamp


__getattr__, __dir__ = lazy_imports(__name__, {"._async.receiver": "AsyncReceiver", "._sync.receiver": "Receiver"})
