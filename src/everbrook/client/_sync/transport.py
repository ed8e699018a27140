# Written by tools/mirror.py from src/everbrook/client/_async/transport.py: change that file, not this one.
"""Requests: with the user's token, headers and parameters, made again where that does no harm."""

import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any
from urllib.parse import quote, urlencode

import httpx2

from everbrook.client._sync.concurrency import place, resolve, sleep
from everbrook.client.address import origin_of
from everbrook.client.errors import ClientError, InvalidAnswer, NotAStream, Redirected, Unreachable
from everbrook.client.refusals import refusal_of
from everbrook.client.retry import Attempts, Retry
from everbrook.protocol.errors import ProtocolError

logger = logging.getLogger(__name__)

Value = str | Callable[[], str]
Content = bytes | None

_UNAUTHORIZED, _REFUSED = 401, 400
# Every follower holds a connection, so there is no bound on them.
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)


class Transport:
    """One server as all streams of a client see it."""

    def __init__(
        self,
        http: httpx2.Client | None,
        *,
        home: str,
        token: Value | None,
        headers: Mapping[str, Value],
        params: Mapping[str, Value],
        retry: Retry,
        timeout_secs: float,
    ) -> None:
        """Send through `http`, which stays its owner's, or through connections of its own.

        Token and headers go to the server of the URL `home`, and to no other.
        """
        wrong_side = http is not None and iscoroutinefunction(http.send)
        if wrong_side:
            raise TypeError(f"http must be an httpx2.Client, got {type(http).__name__}")
        self._given = http
        self._own: httpx2.Client | None = None
        self._place: object = None
        self._guard = threading.Lock()
        self._closed = False
        self._token = token
        self._token_text: str | None = token if isinstance(token, str) else None
        self._home = home
        self._headers = headers
        self._params = params
        self.retry = retry
        self.timeout_secs = timeout_secs

    @property
    def options(self) -> dict[str, Any]:
        """What makes another transport that asks as this one does, through connections of its own."""
        return {
            "home": self._home,
            "token": self._token,
            "headers": self._headers,
            "params": self._params,
            "retry": self.retry,
            "timeout_secs": self.timeout_secs,
        }

    @property
    def _http(self) -> httpx2.Client:
        if self._given is not None:
            return self._given
        with self._guard:
            if self._closed:
                raise ClientError("this client is closed: nothing more can be asked through it")
            # Connections of the process that this one was forked from, or of another loop, are let go of as they are.
            if self._own is None or self._place != place():
                self._own, self._place = httpx2.Client(limits=_LIMITS), place()
            return self._own

    def close(self) -> None:
        """Close the connections, unless they are somebody else's."""
        with self._guard:
            self._closed = True
            own, self._own = self._own, None
        if own is not None:
            own.close()

    def attempts(self, what: str, *, repeatable: bool = True) -> Attempts:
        """Begin to count attempts at something."""
        return Attempts(self.retry, what, random.random, repeatable=repeatable)

    def request(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: Content = None,
        attempts: Attempts | None = None,
    ) -> httpx2.Response:
        """Ask until there is an answer. What is no success is raised, refusals as their own classes."""
        attempts = attempts or self.attempts(f"{method} {url}")
        while True:
            try:
                return self.ask(method, url, query=query, headers=headers, content=content)
            except (httpx2.TransportError, ProtocolError) as failure:
                self.pause(attempts.delay_after(failure), failure)

    def pause(self, delay_secs: float, failure: Exception) -> None:
        """Wait before the next attempt."""
        logger.info("trying again in %.1f s: %s", delay_secs, str(failure) or type(failure).__name__)
        sleep(delay_secs)

    def ask(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: Content = None,
        timeout_secs: float | None = None,
    ) -> httpx2.Response:
        """Ask once."""
        with self.open(
            method, url, query=query, headers=headers, content=content, timeout_secs=timeout_secs
        ) as response:
            response.read()
            return response

    @contextmanager
    def open(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: Content = None,
        timeout_secs: float | None = None,
    ) -> Iterator[httpx2.Response]:
        """Ask once, for an answer whose body is read as it arrives. A token that is not valid any more is renewed."""
        response = self._send(method, url, query, headers, content, timeout_secs)
        if response.status_code == _UNAUTHORIZED and callable(self._token) and "Authorization" not in (headers or {}):
            response.close()
            self._forget(response.request.headers.get("Authorization"))
            response = self._send(method, url, query, headers, content, timeout_secs)
        try:
            if response.status_code >= _REFUSED:
                raise refusal_of(response.status_code, response.headers, response.read(), f"{method} {url}")
            _require_server(response, f"{method} {url}")
            yield response
        except httpx2.DecodingError as error:
            raise InvalidAnswer(f"{method} {url}: the answer is not encoded as it says: {error}") from error
        finally:
            response.close()

    def _send(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        content: Content,
        timeout_secs: float | None,
    ) -> httpx2.Response:
        http = self._http
        at_home = origin_of(url) == origin_of(self._home)
        credentials = self.credentials() if at_home else {}
        given = {**(_resolved(self._params) if at_home else {}), **(query or {})}
        try:
            request = http.build_request(
                method,
                # A server need not take a `+` for a space, as forms do.
                f"{url}?{urlencode(given, quote_via=quote)}" if given else url,
                headers={**credentials, **(headers or {})},
                content=content,
                timeout=httpx2.Timeout(self.timeout_secs, read=timeout_secs or self.timeout_secs),
            )
            return http.send(request, stream=True, follow_redirects=False)
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
            raise Unreachable(f"{method} {url}: {error}") from error
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{method} {url} can't be sent: headers and tokens are ASCII, got {error.object!r:.80}"
            ) from error
        except httpx2.LocalProtocolError as error:
            if not str(error).startswith("Illegal header"):
                raise
            raise ValueError(f"{method} {url} can't be sent: {error}") from error

    def credentials(self) -> dict[str, str]:
        """Give the headers that go with every request."""
        return {**self._authorization(), **_resolved(self._headers)}

    def _forget(self, refused: str | None) -> None:
        """Have the token asked for again, unless somebody has done so since the refused one was sent."""
        if refused == f"Bearer {self._token_text}":
            self._token_text = None

    def _authorization(self) -> dict[str, str]:
        if self._token_text is None and self._token is not None:
            self._token_text = resolve(self._token)
        return {"Authorization": f"Bearer {self._token_text}"} if self._token_text else {}


def _resolved(values: Mapping[str, Value]) -> dict[str, str]:
    return {name: resolve(value) for name, value in values.items()} if values else {}


def _require_server(response: httpx2.Response, asked: str) -> None:
    """Refuse answers that are not a stream server's: whoever takes them for a success loses what was sent."""
    if response.has_redirect_location:
        raise Redirected(asked, response.headers["Location"])
    is_page = response.headers.get("Content-Type", "").startswith("text/html")
    if is_page and response.request.method != "GET" and "Stream-Next-Offset" not in response.headers:
        raise NotAStream(f"{asked} is answered with a web page: is this the URL of a Durable Streams server?")
