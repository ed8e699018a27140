"""The URLs of a server and of the streams, buckets, lists and subscriptions below it."""

from functools import lru_cache
from urllib.parse import quote, urlsplit

from msgspec import Struct

_STREAMS = "/v1/stream"
_BUCKETS = "/ds"


class Root(Struct, frozen=True):
    """A stream root: all streams of the base protocol, or those of a bucket. `parts` is where parts of a stream are."""

    url: str
    parts: str

    def stream(self, name: str) -> str:
        """Return the URL of a stream: `name` is a path below the root, or a URL of its own."""
        if name.lower().startswith(("http://", "https://")):
            return _plain_url("a stream", name)
        safe = "/" if self.parts else ""
        return f"{self.url}/{_quoted('a stream', name.lstrip('/'), safe)}"

    def control(self, resource: str) -> str:
        """Return the URL of a resource of the root itself, such as its list of streams."""
        return f"{self.url}/__ds/{resource}"

    def subscription(self, name: str) -> str:
        return self.control(f"subscriptions/{_quoted('a subscription', name, '')}")

    def linked(self, subscription: str, stream: str) -> str:
        """Return the URL of a stream's link to a subscription."""
        return f"{self.subscription(subscription)}/streams/{_quoted('a stream', stream, '/')}"


class Server(Struct, frozen=True):
    """A server, known by its origin or by the URL of its stream root."""

    url: str

    @property
    def streams(self) -> Root:
        """The root of the base protocol."""
        return Root(self.url + _STREAMS, "/__ds")

    @property
    def buckets(self) -> str:
        """The URL of all buckets."""
        return self.url + _BUCKETS

    def bucket(self, name: str) -> Root:
        return Root(f"{self.buckets}/{_quoted('a bucket', name, '')}", "")


def parse_server(url: str) -> Server:
    """Read the URL of a server, with or without the path of its stream root."""
    return Server(_plain_url("a server", url.strip()).rstrip("/").removesuffix(_STREAMS))


def part_of(url: str, part: str, offset: str) -> str:
    """Return the URL of a part of a stream that belongs to an offset: a snapshot, a cut."""
    return f"{url}/{part}/{_quoted('an offset', offset, '')}"


def _plain_url(what: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError(f"the URL of {what} must begin with http:// or https:// and a host, got {url!r}")
    if parts.query or parts.fragment:
        raise ValueError(f"the URL of {what} must have no query and no fragment, got {url!r}")
    return url


def _quoted(what: str, name: str, safe: str) -> str:
    """Quote a name for a path. Segments `.` and `..` are refused: HTTP clients resolve them to another path."""
    if not name.strip("/"):
        raise ValueError(f"the name of {what} must not be empty, got {name!r}")
    if not {".", ".."}.isdisjoint(name.split("/") if safe else [name]):
        raise ValueError(f"the name of {what} must have no segment '.' or '..', got {name!r}")
    return quote(name, safe=safe)


@lru_cache(maxsize=256)
def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port, by which servers are compared."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
