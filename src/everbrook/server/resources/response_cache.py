"""A cache of the responses to catch-up reads and HEAD requests.

A response depends on the stream's durable state and on the request alone, unless the stream has a lifetime. So it is
valid while that state is the same. A page that ends before the tail stays valid while the stream does, because the
bytes at an offset never change.
"""

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from everbrook.engine.engine import Engine
from everbrook.protocol.path import parse_stream_path
from everbrook.protocol.query import parse_read_query
from everbrook.protocol.state import Head
from everbrook.server.exchange import Reply, Request, Response
from everbrook.server.observe.access_log import REQUEST_ID
from everbrook.server.resources.headers import UP_TO_DATE
from everbrook.server.tuning import ResponseCacheTuning

Key = tuple[bytes, bytes, bytes, bytes, bytes, bool, bytes]
"""What a response depends on besides the stream: method, name, query, `If-None-Match`, `Accept-Encoding`, whether it is
private, and the lines that it begins with."""
_NOT_IN_KEY = frozenset({b"producer-id", b"stream-incarnation", REQUEST_ID})
ENTRY_BYTES = 512
"""About what an entry takes beside the response."""


class Entry(Struct, eq=False):
    """A response, and the durable head of the stream that it was made from."""

    head: Head
    whole: bool
    """Whether the page ended before the tail, so that appends do not change it."""
    response: Response
    size: int

    def is_valid(self, head: Head) -> bool:
        """Tell whether the response is the same for this durable head."""
        made_from = self.head
        return head is made_from or (self.whole and head.identity is made_from.identity and head.kept is made_from.kept)


class ResponseCache:
    """Responses, of which the least recently used are dropped first."""

    def __init__(self, tuning: ResponseCacheTuning) -> None:
        self._tuning = tuning
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._used_bytes = 0

    def find(self, key: Key, head: Head) -> Response | None:
        """Return the response to a request, if it is valid for the durable head of the stream."""
        entry = self._entries.get(key)
        if entry is None or not entry.is_valid(head):
            return None
        self._entries.move_to_end(key)
        return entry.response

    def put(self, key: Key, head: Head, response: Response, *, whole: bool) -> None:
        """Keep a response, unless it is large."""
        # Clients choose the query and the headers in the key, so it counts too.
        *sent, _private, _lines = key
        size = ENTRY_BYTES + sum(map(len, sent)) + len(response.body) + len(response.headers)
        self._remove(key)
        if size > self._tuning.max_entry_bytes:
            return
        self._entries[key] = Entry(head, whole, response, size)
        self._used_bytes += size
        while self._used_bytes > self._tuning.max_bytes:
            self._remove(next(iter(self._entries)))

    def _remove(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._used_bytes -= entry.size


def can_be_cached(request: Request) -> bool:
    """Tell whether the response to a read depends on a `Key` and the durable state of the stream alone."""
    if not _NOT_IN_KEY.isdisjoint(request.headers):
        return False
    return request.method == b"HEAD" or parse_read_query(request.query).live is None


class PreparedRead:
    """Handles the reads that have one head: from the cache, if the stream is in memory and has no lifetime."""

    __slots__ = ("_accept_encoding", "_cache", "_find", "_in_full", "_name", "_plain", "_private")

    def __init__(
        self,
        engine: Engine,
        cache: ResponseCache,
        like: Request,
        in_full: Callable[[Request, bytes], Reply],
        *,
        private: bool,
    ) -> None:
        """Handle requests like this one, of a stream that is not the registry. `in_full` handles what is not cached."""
        self._find = engine.readers.in_memory
        self._cache = cache
        self._name = parse_stream_path(like.path)
        self._accept_encoding = like.headers.get(b"accept-encoding", b"")
        self._plain = like.method == b"GET" and parse_read_query(like.query).plain
        self._private = private
        self._in_full = in_full

    def __call__(self, request: Request, common: bytes) -> Reply:
        stream = self._find(self._name)
        if stream is None or stream.damage or stream.committed.identity.mortal or stream.committed.deleted:
            return self._in_full(request, common)
        head, method = stream.committed, request.method
        if_none_match = request.headers.get(b"if-none-match", b"")
        key = (method, self._name, request.query, if_none_match, self._accept_encoding, self._private, common)
        response = self._cache.find(key, head)
        if response is None:
            reply = self._in_full(request, common)
            if not isinstance(reply, Response):
                return reply
            response = reply
            # The read may have found damage.
            if not stream.damage:
                self._cache.put(key, head, reply, whole=self._plain and UP_TO_DATE not in reply.headers)
        return response
