"""``everbrook read`` and ``everbrook tail``: print the messages of a stream.

The rule: bytes are printed as they were appended. A message of a JSON stream is a line; line ends within it become
spaces, and nothing else changes.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from everbrook.cli.connection import bucket_option, offset_option, open_described, server_options
from everbrook.cli.terminal.output import Command, bytes_out, json_option, leave_with_reader, note

if TYPE_CHECKING:
    from everbrook import Stream
    from everbrook.client.models import Head
    from everbrook.client.page import Page
    from everbrook.client.read_state import Mode
    from everbrook.protocol.frames import Frames

BEGINNING, NOW = "-1", "now"

Printed = tuple[bytes, str]
"""A formatted page, and the offset after it."""


class Bounds(TypedDict, total=False):
    """The bounds of a read: arguments of `Stream.read`."""

    offset: str | None
    at: str | None
    last: int | None
    skip: int | None
    until: str | None


def parse_amount(_ctx: click.Context, _parameter: click.Parameter, text: str) -> Bounds:
    """Parse the number of messages: `N` for the last N, `+N` for all from the Nth on, as in tail(1)."""
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        raise click.BadParameter(f"{text!r} is neither a number of messages nor + and a number")
    if text != digits:
        return {"skip": max(0, int(digits) - 1)}
    return {"last": int(digits)} if int(digits) else {"offset": NOW}


def start_options(command: Command) -> Command:
    """Give a command the options that say where to begin."""
    skip = click.option("--skip", type=click.IntRange(min=0), metavar="N", help="Skip the first N messages.")
    last = click.option("--last", type=click.IntRange(min=1), metavar="N", help="Begin with the last N messages.")
    at = click.option(
        "--at",
        metavar="TIME",
        help="Begin with the first message at or after TIME: RFC 3339, or milliseconds since 1970.",
    )
    offset = offset_option("--offset", "Begin at an offset.")
    return offset(at(last(skip(command))))


@click.command()
@click.argument("name", metavar="STREAM")
@bucket_option
@start_options
@offset_option("--until", "Stop at an offset.")
@json_option
@server_options
def read(name: str, bucket: str | None, *, as_json: bool, **bounds: Unpack[Bounds]) -> None:
    """Print the messages of STREAM: a line for each JSON message, other content unchanged.

    With --json each message of any content type is an object in a line, with offset, time and value, as in the lines of
    `everbrook export`.
    """
    if sum(bounds.get(start) is not None for start in ("offset", "at", "last")) > 1:
        raise click.UsageError("--offset, --at and --last can't be combined: pass one of them")
    with open_described(name, bucket) as (stream, head):
        print_pages(read_pages(stream, head, bounds, as_json=as_json))


@click.command()
@click.argument("name", metavar="STREAM")
@bucket_option
@click.option(
    "-n",
    "amount",
    callback=parse_amount,
    default="10",
    metavar="[+]N",
    help="The last N messages, or with +N all from the Nth on.  [default: 10]",
)
@offset_option("--offset", "Begin at an offset instead.")
@click.option("-f", "--follow", is_flag=True, help="Continue with new messages, until the stream is closed.")
@json_option
@server_options
def tail(name: str, bucket: str | None, amount: Bounds, offset: str | None, *, follow: bool, as_json: bool) -> None:
    """Print the last messages of STREAM, by default 10.

    With -f, continue with new messages, over restarts of the server, until the stream is closed.
    """
    bounds: Bounds = {"offset": offset} if offset else amount
    with open_described(name, bucket) as (stream, head):
        if follow:
            leave_with_reader()
        pages_of = follow_pages if follow else read_pages
        print_pages(pages_of(stream, head, bounds, as_json=as_json))


def read_pages(stream: "Stream[Any]", head: "Head", bounds: Bounds, *, as_json: bool) -> Iterator[Printed]:
    """Read up to the tail; from the earliest offset if no start is given."""
    if as_json:
        return _from_earliest(bounds, lambda given: _described(stream.frames(**given), head))
    return _from_earliest(bounds, lambda given: map(_plain, stream.read(**given).pages()))


def follow_pages(stream: "Stream[Any]", head: "Head", bounds: Bounds, *, as_json: bool) -> Iterator[Printed]:
    """Read up to the tail and follow. Text is long-polled, because events can't carry every text unchanged."""
    from everbrook.client.content import Kind, kind_of

    mode: Mode = "long-poll" if kind_of(head.content_type) is Kind.TEXT else "auto"
    if as_json:
        return _from_earliest(bounds, lambda given: _follow_described(stream, head, given, mode))
    return _from_earliest(bounds, lambda given: map(_plain, stream.follow(mode=mode, **given).pages()))


def _follow_described(stream: "Stream[Any]", head: "Head", given: dict[str, Any], mode: "Mode") -> Iterator[Printed]:
    """Read the stored messages with their times, and then each new page.

    The response of a live read has no times: it only shows that a page exists, which is then read with its times.
    """
    end = None
    if given.get("offset") != NOW:
        for lines, end in _described(stream.frames(**given), head):
            yield lines, end
    if head.closed and end == head.offset:
        return
    for page in stream.follow(mode=mode, **(given if end is None else {"offset": end})).pages():
        if not page.empty:
            yield from _described(stream.frames(page.offset, until=page.next_offset), head)


def _from_earliest(bounds: Bounds, pages_of: Command) -> Iterator[Printed]:
    from everbrook.client.refusals import header_of
    from everbrook.protocol.errors import OffsetGone

    given = {name: value for name, value in bounds.items() if value is not None}
    begun = False
    try:
        for page in pages_of(given):
            begun = True
            yield page
    except OffsetGone as gone:
        earliest = header_of(gone, "Stream-Earliest-Offset")
        if begun or earliest is None or given.get("offset", BEGINNING) != BEGINNING:
            raise
        note(f"messages before offset {earliest} were cut; `everbrook snapshot get` prints the snapshot of them")
        yield from pages_of(given | {"offset": earliest})


def print_pages(pages: Iterable[Printed]) -> str | None:
    """Print pages as they arrive. Returns the offset after the last page, if there was one."""
    out, end = bytes_out(), None
    for lines, next_offset in pages:
        out.write(lines)
        out.flush()
        end = next_offset
    return end


def _plain(page: "Page") -> Printed:
    from everbrook.client.content import Kind
    from everbrook.protocol.json_text import split_array

    if page.kind is not Kind.JSON or not page.data:
        return page.data, page.next_offset
    lines = (bytes(message) for message in split_array(page.data))
    return b"".join(line.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n" for line in lines), page.next_offset


def _described(pages: "Iterable[Frames]", head: "Head") -> Iterator[Printed]:
    """Format each message with its offset and its time."""
    from everbrook.cli.commands.archive_format import format_message
    from everbrook.client.content import Kind, kind_of

    json = kind_of(head.content_type) is Kind.JSON
    for page in pages:
        lines = [format_message(frame.offset, frame.time, frame.payload, json=json) for frame in page]
        yield b"".join(lines), f"{page.ends[-1]:016}"
