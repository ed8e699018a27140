"""``everbrook snapshot`` and ``bootstrap``: snapshots of a stream, and the messages after them."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from everbrook.cli.commands.read import BEGINNING, Printed, follow_pages, print_pages, read_pages
from everbrook.cli.commands.streams import SHORTHANDS
from everbrook.cli.connection import bucket_option, offset_option, open_described, open_stream, server_options
from everbrook.cli.exits import NOT_THERE
from everbrook.cli.terminal.input import INPUT, open_input
from everbrook.cli.terminal.output import bytes_out, complain, json_option, leave_with_reader, print_json

if TYPE_CHECKING:
    from everbrook import Stream
    from everbrook.client.models import Head, Snapshot


class Publication(TypedDict):
    offset: str
    keep_history: bool
    if_match: str | None


@click.group()
def snapshot() -> None:
    """Publish, get and delete snapshots."""


@snapshot.command()
@click.argument("name", metavar="STREAM")
@click.argument("path", metavar="[FILE]", type=INPUT, default="-")
@bucket_option
@offset_option("--offset", "The snapshot replaces all messages before this offset.", required=True)
@click.option(
    "-t", "--type", "content_type", default="json", show_default=True, help="json, text, binary, or any content type."
)
@click.option("--keep-history", is_flag=True, help="Keep the messages before the offset.")
@click.option("--if-match", metavar="ETAG", help="Publish only if this is the ETag of the latest snapshot.")
@json_option
@server_options
def publish(
    name: str, path: str, bucket: str | None, content_type: str, *, as_json: bool, **how: Unpack[Publication]
) -> None:
    """Publish FILE, or standard input, as the snapshot of STREAM at an offset.

    The messages before it are cut, unless --keep-history is set.
    """
    with open_input(path) as file:
        data = file.read()
    with open_stream(name, bucket) as stream:
        stream.publish(data, content_type=SHORTHANDS.get(content_type, content_type), **how)
    if as_json:
        print_json({"stream": name, "snapshot_offset": how["offset"], "size_bytes": len(data)})
    else:
        click.echo(f"published {len(data)} bytes at {how['offset']}")


@snapshot.command()
@click.argument("name", metavar="STREAM")
@bucket_option
@json_option
@server_options
def get(name: str, bucket: str | None, *, as_json: bool) -> int:
    """Print the snapshot of STREAM unchanged.

    With --json it is an object in a line, with its offset, content type and ETag, and its bytes as value, text or
    base64.
    """
    with open_stream(name, bucket) as stream:
        found = stream.snapshot()
    if found is None:
        return complain(f"{name} has no snapshot: `everbrook snapshot publish` makes one", NOT_THERE)
    _print_snapshot(found, as_json=as_json)
    return 0


def _facts(found: "Snapshot") -> dict[str, object]:
    return {
        "snapshot": found.offset,
        "content_type": found.content_type,
        "etag": found.etag,
        **_written(found.data, found.content_type),
    }


def _written(data: bytes, content_type: str) -> dict[str, object]:
    """Format bytes under the key that fits them: value, text or base64."""
    import json
    from base64 import b64encode

    try:
        if content_type.startswith("application/json"):
            return {"value": json.loads(data)}
        return {"text": data.decode()}
    except (ValueError, RecursionError):
        return {"base64": b64encode(data).decode()}


@snapshot.command()
@click.argument("name", metavar="STREAM")
@bucket_option
@offset_option("--offset", "The offset of the snapshot.  [default: the latest]")
@json_option
@server_options
def rm(name: str, bucket: str | None, offset: str | None, *, as_json: bool) -> int:
    """Delete the snapshot of STREAM, if no messages were cut at it."""
    with open_stream(name, bucket) as stream:
        offset = offset or stream.head().snapshot_offset
        if offset is None:
            return complain(f"{name} has no snapshot", NOT_THERE)
        stream.delete_snapshot(offset)
    if as_json:
        print_json({"stream": name, "snapshot_offset": offset, "deleted": True})
    return 0


@click.command()
@click.argument("name", metavar="STREAM")
@bucket_option
@click.option("-f", "--follow", is_flag=True, help="Continue with new messages, until the stream is closed.")
@json_option
@server_options
def bootstrap(name: str, bucket: str | None, *, follow: bool, as_json: bool) -> None:
    """Print the snapshot of STREAM and every message after it unchanged; a line for each JSON message.

    With --json the snapshot, if there is one, and each message are an object in a line, and the last line has the
    offset from which to follow.
    """
    with open_described(name, bucket) as (stream, head):
        if follow:
            leave_with_reader()
        found, pages = _begin(stream, head, follow=follow, as_json=as_json)
        if found is not None:
            _print_snapshot(found, as_json=as_json)
        end = print_pages(pages)
    if as_json:
        # Without messages, the bootstrap ends at the snapshot, or at the tail of a stream without a snapshot.
        print_json({"next_offset": end or (found.offset if found else head.offset)})


def _begin(
    stream: "Stream[Any]", head: "Head", *, follow: bool, as_json: bool
) -> "tuple[Snapshot | None, Iterator[Printed]]":
    """Fetch a snapshot, and start to read after it. If it is replaced meanwhile, fetch the new one."""
    from everbrook.protocol.errors import OffsetGone

    pages_of = follow_pages if follow else read_pages
    while True:
        found = stream.snapshot()
        offset = found.offset if found else BEGINNING
        pages = pages_of(stream, head, {"offset": offset}, as_json=as_json)
        try:
            return found, chain(list(islice(pages, 1)), pages)
        except OffsetGone:
            if stream.head().snapshot_offset == offset:
                raise


def _print_snapshot(found: "Snapshot", *, as_json: bool) -> None:
    if as_json:
        print_json(_facts(found))
        return
    out = bytes_out()
    out.write(found.data)
    if found.content_type.startswith("application/json") and not found.data.endswith(b"\n"):
        out.write(b"\n")
    out.flush()
