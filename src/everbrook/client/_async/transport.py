"""Requests with the user's token, headers and parameters. They are retried where that is safe."""

import logging
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack
from urllib.parse import quote, urlencode

from everbrook.client._async import parts
from everbrook.client._async.concurrency import place, resolve, sleep, spawn
from everbrook.client._async.wire import AsyncResponse, AsyncWire
from everbrook.client.address import origin_of
from everbrook.client.errors import ClientError, NotAStream, Redirected
from everbrook.client.refusals import refusal_of
from everbrook.client.retry import Attempts, Retry
from everbrook.client.timeouts import DEFAULT_TUNING, ClientTuning
from everbrook.client.wire.request import ConnectionBroken, Request, RequestOptions
from everbrook.protocol.errors import ProtocolError

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

Value = str | Callable[[], str | Awaitable[str]]
Ending: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_UNAUTHORIZED, _REFUSED = 401, 400
_REDIRECTS = {301, 302, 303, 307, 308}


class AsyncTransport:
    """Sends the requests of a client and of all its streams."""

    def __init__(
        self,
        http: "httpx2.AsyncClient | AsyncWire | None",
        *,
        home: str,
        token: Value | None,
        headers: Mapping[str, Value],
        params: Mapping[str, Value],
        retry: Retry,
        timeout_secs: float,
        tuning: ClientTuning = DEFAULT_TUNING,
    ) -> None:
        """Send through `http`, which its owner closes, or through connections of its own.

        Token and headers are sent to the server of the URL `home` only.
        """
        wrong_side = http is not None and not iscoroutinefunction(http.send)  # async only
        # sync only: wrong_side = http is not None and iscoroutinefunction(http.send)
        if wrong_side:
            raise TypeError(f"http must be an httpx2.AsyncClient, got {type(http).__name__}")
        if isinstance(http, AsyncWire):
            self._given: AsyncWire | None = http
        else:
            self._over = parts.AsyncHttpxWire
            self._given = None if http is None else self._over(http)
        self._own: AsyncWire | None = None
        self._place: object = None
        self._guard = threading.Lock()
        self._closed = False
        self._endings: set[Ending] = set()
        self._token = token
        self._token_text: str | None = token if isinstance(token, str) else None
        self._home = home
        self._headers = headers
        self._params = params
        self.retry = retry
        self.timeout_secs = timeout_secs
        self.tuning = tuning

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of another transport with the same settings, and with connections of its own."""
        return {
            "home": self._home,
            "token": self._token,
            "headers": self._headers,
            "params": self._params,
            "retry": self.retry,
            "timeout_secs": self.timeout_secs,
            "tuning": self.tuning,
        }

    @property
    def _wire(self) -> AsyncWire:
        if self._given is not None:
            return self._given
        with self._guard:
            if self._closed:
                raise ClientError("this client is closed and can send no more requests")
            # Connections of the parent process or of another event loop can't be closed from here: they are dropped.
            if self._own is None or self._place != place():
                self._own, self._place = self._over(), place()
            return self._own

    @contextmanager
    def before_closing(self, end: Ending) -> Iterator[None]:
        """Call `end` if the connections are closed within the block, so that a recording ends its stream."""
        self._endings.add(end)
        try:
            yield
        finally:
            self._endings.discard(end)

    async def close(self) -> None:
        """End all recordings at the same time; then close the connections, unless they were given."""
        for task in [spawn(end, name="everbrook: the end of a recording") for end in list(self._endings)]:
            await task.join()
        with self._guard:
            self._closed = True
            own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    def attempts(self, what: str, *, repeatable: bool = True) -> Attempts:
        """Count the attempts at one request."""
        return Attempts(self.retry, what, random.random, repeatable=repeatable)

    async def request(
        self, method: str, url: str, *, attempts: Attempts | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncResponse:
        """Send a request, with retries, until a response arrives. A refusal is raised as an error of its own class."""
        attempts = attempts or self.attempts(f"{method} {url}")
        while True:
            try:
                return await self.ask(method, url, **options)
            except (ConnectionBroken, ProtocolError) as failure:
                await self.pause(attempts.delay_after(failure), failure)

    async def pause(self, delay_secs: float, failure: Exception) -> None:
        """Wait before the next attempt."""
        logger.info("trying again in %.1f s: %s", delay_secs, str(failure) or type(failure).__name__)
        await sleep(delay_secs)

    async def ask(self, method: str, url: str, **options: Unpack[RequestOptions]) -> AsyncResponse:
        """Send a request once, and read the response."""
        async with self.open(method, url, **options) as response:
            await response.aread()
            return response

    @asynccontextmanager
    async def open(self, method: str, url: str, **options: Unpack[RequestOptions]) -> AsyncIterator[AsyncResponse]:
        """Send a request once, for a response whose body is read as it arrives. A refused token is renewed once."""
        request, response = await self._send(method, url, options)
        own_token = "Authorization" not in (options.get("headers") or {})
        if response.status_code == _UNAUTHORIZED and callable(self._token) and own_token:
            await response.aclose()
            self._forget(request.headers.get("Authorization"))
            request, response = await self._send(method, url, options)
        try:
            if response.status_code >= _REFUSED:
                raise refusal_of(response.status_code, response.headers, await response.aread(), f"{method} {url}")
            _require_server(method, response, f"{method} {url}")
            yield response
        finally:
            await response.aclose()

    async def _send(self, method: str, url: str, options: RequestOptions) -> tuple[Request, AsyncResponse]:
        wire = self._wire
        # The name of a stream may be a URL from a user or an archive: another server must not see the token.
        at_home = origin_of(url) == origin_of(self._home)
        credentials = await self.credentials() if at_home else {}
        given = {**(await _resolved(self._params) if at_home else {}), **(options.get("query") or {})}
        request = Request(
            method,
            # `quote` writes a space as %20: outside of forms, a server need not read `+` as a space.
            f"{url}?{urlencode(given, quote_via=quote)}" if given else url,
            {**credentials, **(options.get("headers") or {})},
            options.get("content"),
            self.timeout_secs,
            options.get("timeout_secs") or self.timeout_secs,
        )
        try:
            return request, await wire.send(request)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{method} {url} can't be sent: headers and tokens must be ASCII, got {error.object!r:.80}"
            ) from error

    async def credentials(self) -> dict[str, str]:
        """Return the token and the headers that are sent with every request."""
        return {**await self._authorization(), **await _resolved(self._headers)}

    def _forget(self, refused: str | None) -> None:
        """Drop the token, unless another request has renewed it since the refused one was sent."""
        if refused == f"Bearer {self._token_text}":
            self._token_text = None

    async def _authorization(self) -> dict[str, str]:
        if self._token_text is None and self._token is not None:
            self._token_text = await resolve(self._token)
        return {"Authorization": f"Bearer {self._token_text}"} if self._token_text else {}


async def _resolved(values: Mapping[str, Value]) -> dict[str, str]:
    return {name: await resolve(value) for name, value in values.items()} if values else {}


def _require_server(method: str, response: AsyncResponse, asked: str) -> None:
    """Refuse a response of another kind of server: taken for a success, it would hide that a message is lost."""
    if response.status_code in _REDIRECTS and "Location" in response.headers:
        raise Redirected(asked, response.headers["Location"])
    is_page = response.headers.get("Content-Type", "").startswith("text/html")
    if is_page and method != "GET" and "Stream-Next-Offset" not in response.headers:
        raise NotAStream(f"{asked} is answered with a web page: is this the URL of a Durable Streams server?")
