"""The keys of an issuer: read from a file, or fetched from a URL in the background, never within a request.

While an issuer is down, the known keys stay valid. Tokens with unknown keys cause at most one fetch a minute, because
clients can invent key ids. A token whose key may be new can't be verified yet: that is 503, not 401. A key that the
issuer has withdrawn is not new: its tokens are refused at once.
"""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable
from functools import cache
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from everbrook.protocol.errors import Unavailable
from everbrook.server.auth.jwks import MAX_SET_BYTES, Key, KeySet
from everbrook.server.auth.key_file import WatchedFile
from everbrook.server.tuning import AUTH_TUNING, IssuerTuning, WatchTuning

logger = logging.getLogger(__name__)

_OK = 200
_HEADERS = [("Accept", "application/jwk-set+json, application/json"), ("Accept-Encoding", "identity")]
_authorities = cache(ssl.create_default_context)  # reading them takes noticeably long


class Keys(Protocol):
    """The keys that tokens are verified with."""

    @property
    def generation(self) -> int:
        """A number that changes with the keys. Tokens that were verified with earlier keys must be verified again."""

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        """Find a key. Return None if there is none, raise `Unavailable` if that is unknown at present."""

    async def begin(self) -> None:
        """Fetch the keys, if that is possible now."""

    def reload(self) -> None:
        """Read or fetch the keys again at once."""

    async def close(self) -> None:
        """Stop fetching."""


class FileKeys:
    """The keys of a file."""

    def __init__(self, path: str, parse: Callable[[bytes], KeySet], tuning: WatchTuning = AUTH_TUNING.watch) -> None:
        self._file = WatchedFile(path, parse, setting="auth.jwks", tuning=tuning)
        self.reload = self._file.reload

    @property
    def generation(self) -> int:
        self._file.check()
        return self._file.generation

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        return self._file.value.find(kid, algorithm)

    async def begin(self) -> None:
        """Do nothing: the file is read already."""

    async def close(self) -> None:
        """Do nothing: no task or connection is open."""


class KeysInspection(Struct, frozen=True):
    """Key ids that are not in the set: those that tokens named, and those that the issuer has withdrawn."""

    missed: tuple[str, ...]
    withdrawn: tuple[str, ...]


class FetchedKeys:
    """The keys at a URL, fetched again periodically, and when a token names an unknown one."""

    def __init__(
        self,
        url: str,
        parse: Callable[[bytes], KeySet],
        refresh_secs: float,
        tuning: IssuerTuning = AUTH_TUNING.issuer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._parse = parse
        self._refresh_secs = refresh_secs
        self._tuning = tuning
        self._clock = clock
        self._set: KeySet | None = None
        self._text = b""
        self.generation = 0
        self._began_at = -tuning.hold_off_secs
        self._known_since = -tuning.hold_off_secs
        self._failures = 0
        self._missed: dict[str, float] = {}
        self._withdrawn: dict[str, None] = {}
        self._asked = asyncio.Event()
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Fetch, and return when the first attempt has succeeded or failed."""
        self._start()
        await self._tried.wait()

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def reload(self) -> None:
        self._asked.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        """Find a key. An unknown one may be new: then the set is fetched again, and `Unavailable` is raised."""
        if self._set is None:
            self._start()
            raise Unavailable("the keys of the tokens' issuer could not be fetched yet")
        key = self._set.find(kid, algorithm)
        if key is not None or kid is None or kid in self._set:
            return key
        if self._is_new(kid):
            raise Unavailable("the token names a key that is not known yet: the keys of its issuer are fetched again")
        return None

    def _is_new(self, kid: str) -> bool:
        """Tell whether the known set is older than the first token with this key. If so, and if due, fetch again."""
        now = self._clock()
        if now - self._began_at >= self._tuning.hold_off_secs:
            self._asked.set()
        if kid in self._withdrawn:
            return False
        # Clients choose these ids, so the table is bounded, and drops the oldest.
        missed_at = self._missed.setdefault(kid, now)
        if len(self._missed) > self._tuning.max_missed:
            del self._missed[next(iter(self._missed))]
        return missed_at >= self._known_since

    def inspect(self) -> KeysInspection:
        """Return the key ids that are remembered as missing."""
        return KeysInspection(tuple(self._missed), tuple(self._withdrawn))

    async def _run(self) -> None:
        while True:
            self._asked.clear()
            await self._attempt()
            self._tried.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), self._pause_secs())

    def _pause_secs(self) -> float:
        """Return the time to the next attempt. It is short only while no keys are known."""
        if not self._failures:
            return self._refresh_secs
        retry_secs = self._tuning.retry_secs
        pause = retry_secs[min(self._failures, len(retry_secs)) - 1]
        return pause if self._set is None else max(pause, min(self._tuning.hold_off_secs, self._refresh_secs))

    async def _attempt(self) -> None:
        self._began_at = began_at = self._clock()
        try:
            async with asyncio.timeout(self._tuning.timeout_secs):
                text = await fetch(self._url)
            self._take(text, began_at)
        except Exception as error:  # noqa: BLE001 - whatever an issuer does, the known keys stay valid
            self._failures += 1
            if self._failures == 1:
                kept = "the known keys stay valid" if self._set else "no token can be verified until then"
                logger.warning("the keys at %s can't be fetched, %s: %s", _shown(self._url), kept, _reason(error))

    def _take(self, text: bytes, began_at: float) -> None:
        if text != self._text or self._set is None:
            known = self._parse(text)
            self._withdraw(known)
            self._set = known
            self._text = text
            self.generation += 1
        # The start of the fetch counts: a key that was added after it may be missing in the response.
        self._known_since = began_at
        if self._failures:
            logger.info("the keys at %s can be fetched again", _shown(self._url))
        self._failures = 0

    def _withdraw(self, known: KeySet) -> None:
        """Remember which keys were withdrawn. Only the issuer adds to this list, so no client can push one out."""
        gone = self._set.ids - known.ids if self._set else set()
        self._withdrawn = {kid: None for kid in (*self._withdrawn, *gone) if kid is not None and kid not in known}
        while len(self._withdrawn) > self._tuning.max_withdrawn:
            del self._withdrawn[next(iter(self._withdrawn))]


async def fetch(url: str) -> bytes:
    """Fetch a key set: redirects are not followed, and its size is limited."""
    # Imported here, because keys in a file do not need it.
    import httpcore2

    parts, size = [], 0
    async with (
        httpcore2.AsyncConnectionPool(ssl_context=_authorities()) as pool,
        pool.stream("GET", url, headers=_HEADERS) as answer,
    ):
        if answer.status != _OK:
            raise ValueError(f"the status is {answer.status}")
        async for part in answer.aiter_stream():
            parts.append(part)
            size += len(part)
            if size > MAX_SET_BYTES:
                raise ValueError(f"it has more than {MAX_SET_BYTES} bytes")
    return b"".join(parts)


def _shown(url: str) -> str:
    """Return a URL for a log, without its query, which may hold a secret."""
    return urlsplit(url)._replace(query="").geturl()


def _reason(error: Exception) -> str:
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)
