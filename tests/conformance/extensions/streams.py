"""Where a test's streams live and what can be asked of them, said once for both surfaces.

002 puts streams into buckets, `/ds/{bucket}/{stream}`, with their sub-resources right below; the base surface has paths
of any depth, `/v1/stream/{path}`, with the same sub-resources below `__ds`.
"""

import secrets
from typing import Self
from urllib.parse import quote

from tests.conformance.extensions.client import Answer, Client, query

SURFACES = ("bucket", "base")
BASE_ROOT = "/v1/stream"
BUCKET_ROOT = "/ds"


def fresh_name(size: int = 16) -> str:
    """A name that nobody else uses, also good for a bucket."""
    return f"t-{secrets.token_hex(size)}"[:size]


class Stream:
    """A stream by its URL. What it is asked returns whole answers."""

    def __init__(self, client: Client, path: str, resources: str) -> None:
        self.client = client
        self.path = path
        self.resources = resources
        self.content_type = "text/plain"

    def resource(self, name: str) -> str:
        """The path of a sub-resource: `snapshot`, `snapshot/{offset}`, `bootstrap`, `retention/{offset}`."""
        return f"{self.resources}/{name}"

    # The base protocol

    def create(self, content_type: str = "text/plain", body: bytes | None = None, /, **headers: str) -> Self:
        self.content_type = content_type
        answer = self.client.request("PUT", self.path, body, content_type=content_type, **headers)
        assert answer.status == 201, answer
        return self

    def put(self, body: bytes | None = None, /, **headers: str) -> Answer:
        return self.client.request("PUT", self.path, body, **headers)

    def post(self, body: bytes, /, **headers: str) -> Answer:
        return self.client.request("POST", self.path, body, **{"content_type": self.content_type, **headers})

    def append(self, *messages: bytes) -> str:
        """Append messages one by one, and give the offset after the last."""
        offset = self.tail if not messages else ""
        for message in messages:
            answer = self.post(message)
            assert answer.status in {200, 204}, answer
            offset = answer.next_offset
        return offset

    def close(self) -> None:
        answer = self.client.request("POST", self.path, stream_closed="true")
        assert answer.status in {200, 204}, answer

    def delete(self) -> Answer:
        return self.client.request("DELETE", self.path)

    def head(self, **parameters: object) -> Answer:
        return self.client.request("HEAD", query(self.path, **parameters))

    @property
    def tail(self) -> str:
        return self.head().next_offset

    def read(self, **parameters: object) -> Answer:
        return self.client.get(query(self.path, **parameters))

    def read_all(self, offset: str, **parameters: object) -> bytes:
        """Everything from an offset to the end of its last page, page by page. Not for JSON."""
        pages: list[bytes] = []
        while True:
            page = self.read(offset=offset, **parameters)
            assert page.status == 200, page
            pages.append(page.body)
            if page.up_to_date or page.next_offset == offset:
                return b"".join(pages)
            offset = page.next_offset

    # The extensions

    def publish(self, offset: str, body: bytes = b"folded", /, **headers: str) -> Answer:
        return self.client.request("PUT", self.resource(f"snapshot/{offset}"), body, **headers)

    def published(self, offset: str, body: bytes = b"folded", /, **headers: str) -> str:
        """Publish a snapshot, which must succeed."""
        answer = self.publish(offset, body, **headers)
        assert answer.status == 204, answer
        return offset

    def latest(self) -> Answer:
        return self.client.get(self.resource("snapshot"))

    def snapshot(self, offset: str, /, **headers: str) -> Answer:
        return self.client.get(self.resource(f"snapshot/{offset}"), **headers)

    def delete_snapshot(self, offset: str, /, **headers: str) -> Answer:
        return self.client.request("DELETE", self.resource(f"snapshot/{offset}"), **headers)

    def bootstrap(self, **parameters: object) -> Answer:
        return self.client.get(query(self.resource("bootstrap"), **parameters))

    def retain(self, offset: str, /, **headers: str) -> Answer:
        return self.client.request("PUT", self.resource(f"retention/{offset}"), **headers)


class Namespace:
    """A bucket, or a folder of the base surface, that is a test's own."""

    def __init__(self, client: Client, surface: str, name: str) -> None:
        self.client = client
        self.surface = surface
        self.name = name
        self.path = f"{BUCKET_ROOT if surface == 'bucket' else BASE_ROOT}/{name}"

    def make(self, **headers: str) -> Self:
        """Create the bucket; folders need no creation."""
        if self.surface == "bucket":
            answer = self.client.request("PUT", self.path, **headers)
            assert answer.status == 201, answer
        return self

    def stream(self, stream_id: str) -> Stream:
        """A stream that may or may not exist."""
        path = f"{self.path}/{quote(stream_id, safe='')}"
        return Stream(self.client, path, path if self.surface == "bucket" else f"{path}/__ds")

    def fresh(self, content_type: str = "text/plain", /, *messages: bytes) -> Stream:
        """A new stream of this content type with these messages."""
        stream = self.stream(fresh_name(8)).create(content_type)
        stream.append(*messages)
        return stream

    # The listing

    @property
    def listing(self) -> str:
        return f"{self.path}/streams" if self.surface == "bucket" else f"{BASE_ROOT}/__ds/streams"

    def entry_id(self, stream_id: str) -> str:
        """The id under which a stream of this namespace is listed."""
        return stream_id if self.surface == "bucket" else f"{self.name}/{stream_id}"

    def listed(self, **parameters: object) -> Answer:
        return self.client.get(query(self.listing, **parameters))


def beyond(offset: str, by: int = 1) -> str:
    """The offset token so many payload bytes further on (002 §2.1: tokens are padded decimal numbers)."""
    return f"{int(offset) + by:0{len(offset)}d}"
