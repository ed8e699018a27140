# Written by tools/mirror.py from src/everbrook/client/_async/receiver.py: change that file, not this one.
"""The receiver of webhooks, and the key set of a server that it fetches (§6.5, §12.10)."""

import time

import httpx2

from everbrook.client._sync.concurrency import Lock
from everbrook.client.jwks import HEADERS, TIMEOUT_SECS, KeySet, KnownKeys, require_bounded
from everbrook.client.webhooks import TOLERANCE_SECS, Clock, Replays, check_signature, check_time, parse_header
from everbrook.client.wire.httpx import tls_context


class Jwks:
    """The key set at a URL, for threads."""

    def __init__(self, url: str, client: httpx2.Client | None = None) -> None:
        """Fetch with `client`, which its owner closes, or with one for each fetch."""
        self._url = url
        self._client = client
        self._known = KnownKeys()
        self._lock = Lock()

    def knowing(self, kid: str, now: float) -> KeySet:
        """Return the key set. It is fetched again first if it is too old or lacks the key."""
        with self._lock:
            if self._known.due(kid, now):
                self._refresh(now)
            return self._known.known()

    def _refresh(self, now: float) -> None:
        # Counted before the fetch, so that the bound holds for fetches that fail too.
        self._known.asking(now)
        try:
            if self._client is not None:
                self._known.learn(self._fetch(self._client), now)
            else:
                with httpx2.Client(verify=tls_context()) as client:
                    self._known.learn(self._fetch(client), now)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            self._known.failure = error

    def _fetch(self, client: httpx2.Client) -> bytes:
        with client.stream("GET", self._url, headers=HEADERS, timeout=TIMEOUT_SECS) as response:
            response.raise_for_status()
            text = b""
            for chunk in response.iter_raw():
                text += chunk
                require_bounded(text)
            return text


class Receiver:
    """Checks the requests of one server: time, key, signature, and that no request is a replay."""

    def __init__(
        self,
        jwks: Jwks,
        *,
        tolerance_secs: float = TOLERANCE_SECS,
        replays: Replays | None = None,
        clock: Clock = time.time,
    ) -> None:
        """Take the keys from `jwks`."""
        self._jwks = jwks
        self._tolerance_secs = tolerance_secs
        self._replays = replays or Replays(tolerance_secs)
        self._clock = clock

    def check(self, body: bytes, signature_header: str) -> None:
        """Check a request: raise SignatureInvalid (respond with 401) or KeysUnavailable (respond with 503)."""
        now = self._clock()
        signed = parse_header(signature_header)
        check_time(signed.timestamp, now, self._tolerance_secs)
        check_signature(body, signed, self._jwks.knowing(signed.kid, now))
        self._replays.admit(signed, now)
