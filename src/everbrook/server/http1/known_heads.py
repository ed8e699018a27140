"""Known heads: a cache from the bytes of a request's head to what the parser makes of them.

A client sends nearly the same head again and again. So a head is split at the values that vary from request to request:
the length of the body, the sequence of a producer, the offset of a reader. What remains is the shape of the head. The
cache has the parsed request of each shape, and the function that handles such requests. Recognizing a head takes a
fraction of the time of parsing it.

Only a head whose meaning is a pure function of its bytes is learned: that of a small request which keeps an HTTP/1.1
connection open, and has each header once and no `Expect`, `Transfer-Encoding` or `Upgrade`. It is learned when its
shape is seen for the second time, so that shapes which never come again do not fill the cache. All other requests take
the way through the parser.
"""

import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from everbrook.server.exchange import JUDGED_BYTES, Peer, Prepared
from everbrook.server.http1.body import KEPT, Http1Request
from everbrook.server.methods import SUBSCRIPTIONS

HEAD_END = b"\r\n\r\n"
MAX_HEAD_BYTES = 4096
MAX_VALUE_BYTES = 1024
MAX_BODY_BYTES = JUDGED_BYTES
"""Larger bodies arrive in several reads, and are announced to the application if there is a policy."""
MAX_CACHED_BYTES = 64 << 20
KNOWN_BYTES = 1024
"""About what a known head takes beside its shape and its headers."""
HEADER_BYTES = 128
"""About what a header of a known head takes beside its text."""
MAX_UNKNOWN = 4096
"""How many shapes that were seen once are remembered."""

# A value has neither spaces nor control characters, so the parser takes it as it is.
_VARYING = re.compile(
    rb"(\r\n(?:[Cc]ontent-[Ll]ength|[Pp]roducer-(?:[Ee]poch|[Ss]eq|[Pp]osition)|[Ss]tream-[Ss]eq|[Ii]f-[Nn]one-[Mm]atch"
    rb"|[Tt]raceparent): )([!-~]+)(?=\r)"
)
_VARYING_IN_QUERY = re.compile(rb"([?&](?:offset|cursor)=)([0-9]+)(?=[& ])")
_LINE_END = b"\r\n"
_VERSION = b" HTTP/1.1\r\n"
_LENGTH = b"content-length"
_VALUE = re.compile(rb"[!-~]+")
_MAX_LENGTH_DIGITS = 9
_UNKNOWABLE = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
_METHODS = frozenset({b"GET", b"HEAD", b"POST"})


class KnownHead(Struct, eq=False):
    """A shape, and the request that it was learned from.

    `names` has the header of each value that varies; it is empty for a value of the query. `prepared` is None if such
    requests are handled as any other.
    """

    request: Http1Request
    names: list[bytes]
    prepared: Prepared | None


class KnownHeads:
    """The known heads of a listener."""

    def __init__(self, prepare: Callable[[Http1Request], Prepared | None], max_bytes: int = MAX_CACHED_BYTES) -> None:
        """`prepare` finds the short way of handling the requests that have the head of this one."""
        self._prepare = prepare
        self._max_bytes = max_bytes
        self._heads: dict[bytes, KnownHead] = {}
        self._unknown: set[bytes] = set()
        self._cached_bytes = 0
        self.generation = 0
        """A number that changes when all heads are forgotten."""
        self.find = self._heads.get

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def shapes(self) -> list[bytes]:
        """The shapes of the known heads."""
        return list(self._heads)

    @property
    def unknown_count(self) -> int:
        """How many shapes were seen once."""
        return len(self._unknown)

    def clear(self) -> None:
        """Forget all heads: what was prepared may not be valid any more."""
        self._heads.clear()
        self._unknown.clear()
        self._cached_bytes = 0
        self.generation += 1

    def learn(self, missed: "Missed", request: Http1Request) -> None:
        """Remember what the parser has made of a head, if its shape was seen before."""
        shape = b"\0".join(missed.pieces)
        if shape not in self._unknown:
            if len(self._unknown) >= MAX_UNKNOWN:
                self._unknown.clear()
            self._unknown.add(shape)
        elif shape not in self._heads and (known := self._know(missed, replace(request, body=b""))) is not None:
            # The text of a head is there twice: in its shape, and in the request.
            size = KNOWN_BYTES + 2 * len(shape) + HEADER_BYTES * len(request.headers)
            if self._cached_bytes + size > self._max_bytes:
                self.clear()
            self._cached_bytes += size
            self._heads[shape] = known

    def _know(self, missed: "Missed", request: Http1Request) -> KnownHead | None:
        """Describe a head, or return None if its meaning may depend on more than its bytes."""
        head, headers = missed.head, request.headers
        if request.connection != KEPT or request.method not in _METHODS or not _UNKNOWABLE.isdisjoint(headers):
            return None
        # The parser merges a header that comes twice.
        if head.count(_LINE_END) - 2 != len(headers) or SUBSCRIPTIONS in request.path:
            return None
        names = [
            piece.strip(b"\r\n: ").lower() if piece.startswith(_LINE_END) else b"" for piece in missed.pieces[1::2]
        ]
        if any(name and headers.get(name) != value for name, value in zip(names, missed.values, strict=True)):
            return None
        return KnownHead(request, names, self._prepare(request))


class Missed(Struct, eq=False):
    """A head that is not known."""

    head: bytes
    pieces: list[bytes]
    values: list[bytes]


class Recognizer:
    """Makes requests of the reads of one connection, if each is a whole request whose head is known.

    Most clients send the same head as before, but for a value or two. So a read is compared with the last head first:
    `_segments` are what stands before, between and after the values that vary. `missed` is the head that a read begins
    with if it could be learned.
    """

    __slots__ = (
        "_generation",
        "_head",
        "_heads",
        "_known",
        "_max_body_bytes",
        "_max_head_bytes",
        "_query",
        "_segments",
        "_whole_bytes",
        "headers",
        "missed",
    )

    def __init__(self, heads: KnownHeads, max_header_bytes: int, max_body_bytes: int) -> None:
        """Recognize no request that is larger than the parser allows."""
        self._heads = heads
        self._max_head_bytes = min(MAX_HEAD_BYTES, max_header_bytes)
        self._max_body_bytes = min(MAX_BODY_BYTES, max_body_bytes)
        self._generation = -1
        self._head = self._query = b""
        self._segments: list[bytes] = [b""]
        self._known: KnownHead | None = None
        self._whole_bytes = 0
        self.headers: dict[bytes, bytes] = {}
        self.missed: Missed | None = None

    def recognize(self, data: bytes, scheme: bytes, peer: Peer, heard_at: float) -> Http1Request | None:
        """Return the request that a read consists of. None: the read must be parsed."""
        self.missed, known = None, self._known
        is_last = known is not None and self._generation == self._heads.generation
        if known is None or not is_last or not (data.startswith(self._head) or self._follows(known, data)):
            known = self._known = self._look_up(data)
        if known is None or len(data) != self._whole_bytes:
            return None
        like = known.request
        return Http1Request(
            like.method,
            like.path,
            self._query,
            self.headers,
            data[len(self._head) :],
            scheme,
            b"",
            peer,
            heard_at,
            prepared=known.prepared,
            connection=KEPT,
            chunkable=True,
        )

    def awaits_body(self, data: bytes) -> bool:
        """Tell whether a read that was not recognized is a known head, whose body comes with the next read."""
        return self._known is not None and len(data) == len(self._head) < self._whole_bytes

    def _follows(self, known: KnownHead, data: bytes) -> bool:
        """Tell whether a read has the head of the last one, but for the values that vary, and take these over."""
        first = self._segments[0]
        if not data.startswith(first):
            return False
        end, values = len(first), []
        for segment in self._segments[1:]:
            start = end
            end = data.find(segment, start, start + MAX_VALUE_BYTES + len(segment))
            if end < 0:
                return False
            values.append(data[start:end])
            end += len(segment)
        return end <= self._max_head_bytes and self._take(known, data[:end], values)

    def _look_up(self, data: bytes) -> KnownHead | None:
        """Find the head that a read begins with in the cache."""
        end = data.find(HEAD_END, 0, self._max_head_bytes)
        if end <= 0:
            return None
        head = data[: end + len(HEAD_END)]
        pieces, values = split_head(head)
        known = self._heads.find(b"\0".join(pieces))
        if known is None:
            self.missed = Missed(head, pieces, values)
            return None
        # No known head contains a NUL. So a head with as many values has the same pieces.
        if len(values) != len(known.names) or not self._take(known, head, values):
            return None
        names_and_last = (*pieces[1::2], b"")
        self._segments = [piece + name for piece, name in zip(pieces[::2], names_and_last, strict=True)]
        self._generation = self._heads.generation
        return known

    def _take(self, known: KnownHead, head: bytes, values: list[bytes]) -> bool:
        """Take over a head with its values, if each of them is one that the parser would accept."""
        like = known.request
        query, headers = like.query, like.headers.copy()
        for name, value in zip(known.names, values, strict=True):
            if not value.isdigit() and not (name and _VALUE.fullmatch(value)):
                return False
            headers[name] = value
        if query:
            query = head[: head.index(_VERSION)].partition(b"?")[2]
            headers.pop(b"", None)
        length = headers.get(_LENGTH, b"0")
        if not length.isdigit() or len(length) > _MAX_LENGTH_DIGITS or int(length) > self._max_body_bytes:
            return False
        self._head, self._query, self.headers = head, query, headers
        self._whole_bytes = len(head) + int(length)
        return True

    def stop(self) -> None:
        """Recognize nothing more: the connection ends with the request that was parsed last."""
        self._known, self._max_head_bytes = None, 0

    def learn(self, request: Http1Request, target: bytes) -> None:
        """Learn the head that was missed, if the parser has made this request of it."""
        missed, self.missed = self.missed, None
        if missed is None or len(request.body) > self._max_body_bytes:
            return
        if missed.head.startswith(b"%b %b%b" % (request.method, target, _VERSION)):
            self._heads.learn(missed, request)


def split_head(head: bytes) -> tuple[list[bytes], list[bytes]]:
    """Split a head into the pieces that do not vary and the values that do.

    Every second piece is what stands before a value: the name of a header or of a parameter.
    """
    pieces = _VARYING.split(head)
    values = pieces[2::3]
    del pieces[2::3]
    if b"?" in pieces[0]:
        line, line_end, rest = pieces[0].partition(_LINE_END)
        # In the query only: `&offset=1` may also be part of a path, where it names another stream.
        path, mark, query = line.partition(b"?")
        target = _VARYING_IN_QUERY.split(mark + query)
        values[:0] = target[2::3]
        del target[2::3]
        target[-1] += line_end + rest
        pieces[:1] = (path + target[0], *target[1:])
    return pieces, values
