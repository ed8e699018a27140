"""Commands on whole streams: ``create``, ``head``, ``close``, ``rm``, ``fork``, ``ls``."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from everbrook.cli.connection import (
    bucket_option,
    find_stream,
    offset_option,
    open_client,
    open_stream,
    root_of,
    server_options,
)
from everbrook.cli.exits import NOT_THERE, Ending, explain
from everbrook.cli.terminal.input import message_of
from everbrook.cli.terminal.output import (
    Command,
    align,
    complain,
    format_moment,
    format_time,
    json_option,
    print_json,
    show,
)

if TYPE_CHECKING:
    from everbrook import Stream
    from everbrook.client.models import Head, StreamInfo

SHORTHANDS = {"json": "application/json", "text": "text/plain", "binary": "application/octet-stream"}
TITLES = ("status", "content type", "bytes", "tail", "last write", "stream")
NUMBERS = frozenset({2, 3})


class Lifetime(TypedDict):
    """The lifetime of a stream, and whether it is created closed."""

    ttl_secs: int | None
    expires_at: datetime | None
    closed: bool


class CreationOptions(Lifetime):
    """The configuration of a new stream."""

    retention: str | None


class Branch(Lifetime):
    """The configuration of a new fork."""

    offset: str | None
    sub_offset: int | None


def parse_moment(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> datetime | None:
    """Parse a time, which must have a time zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a time such as 2030-01-31T12:00:00Z") from error
    if moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone: add Z for UTC")
    return moment


def lifetime_options(command: Command) -> Command:
    """Give a command the options that say how long a stream lives."""
    closed = click.option("--closed", is_flag=True, help="Create the stream closed.")
    expires_at = click.option(
        "--expires-at",
        callback=parse_moment,
        metavar="TIME",
        help="The time at which the stream expires, such as 2030-01-31T12:00:00Z.",
    )
    ttl_secs = click.option(
        "--ttl",
        "ttl_secs",
        type=click.IntRange(min=0),
        metavar="SECONDS",
        help="Let the stream expire SECONDS after the last read or write.",
    )
    return ttl_secs(expires_at(closed(command)))


@click.command()
@click.argument("name", metavar="STREAM")
@bucket_option
@click.option(
    "-t", "--type", "content_type", default="json", show_default=True, help="json, text, binary, or any content type."
)
@lifetime_options
@click.option(
    "--retention", metavar="POLICY", help="The retention policy: max-age=SECONDS, max-bytes=N, max-messages=N."
)
@json_option
@server_options
def create(
    name: str, bucket: str | None, content_type: str, *, as_json: bool, **configuration: Unpack[CreationOptions]
) -> None:
    """Create STREAM, unless it exists with the same configuration.

    A stream that exists with another configuration is an error.
    """
    with open_stream(name, bucket) as stream:
        found = stream.create(content_type=SHORTHANDS.get(content_type, content_type), **configuration)
    if as_json:
        print_json({"stream": name, "url": stream.url, "created": found.created, "offset": found.offset})
    else:
        click.echo(f"{'created' if found.created else 'found'} {stream.url}")


@click.command()
@click.argument("name", metavar="STREAM")
@bucket_option
@json_option
@server_options
def head(name: str, bucket: str | None, *, as_json: bool) -> None:
    """Print the metadata of STREAM without its messages. The offset is its tail."""
    with open_stream(name, bucket) as stream:
        show(describe(name, stream.head()), as_json=as_json)


def describe(name: str, found: "Head") -> dict[str, object]:
    """Return the metadata of a stream as JSON keys."""
    return {
        "stream": name,
        "content_type": found.content_type,
        "offset": found.offset,
        "closed": found.closed,
        "earliest_offset": found.earliest_offset,
        "snapshot_offset": found.snapshot_offset,
        "ttl_secs": found.ttl_secs,
        "expires_at": found.expires_at and format_moment(found.expires_at),
        "retention": found.retention,
    }


@click.command()
@click.argument("name", metavar="STREAM")
@click.argument("message", required=False)
@bucket_option
@json_option
@server_options
def close(name: str, message: str | None, bucket: str | None, *, as_json: bool) -> None:
    """Close STREAM, with a last MESSAGE if there is one. Prints its final offset."""
    with open_stream(name, bucket) as stream:
        offset = stream.close() if message is None else stream.close(_last(stream, message))
    if as_json:
        print_json({"stream": name, "offset": offset, "closed": True})
    else:
        click.echo(offset)


def _last(stream: "Stream[Any]", message: str) -> bytes:
    from everbrook.client.content import Kind, kind_of

    return message_of(message, json=kind_of(stream.head().content_type) is Kind.JSON)


@click.command()
@click.argument("names", metavar="STREAM...", nargs=-1, required=True)
@bucket_option
@click.option("-f", "--force", is_flag=True, help="Do not report streams that do not exist.")
@json_option
@server_options
def rm(names: tuple[str, ...], bucket: str | None, *, force: bool, as_json: bool) -> int:
    """Delete each STREAM.

    Streams that can't be deleted are reported, and the others are deleted; the exit code is that of the first failure.
    """
    code = 0
    with open_client() as client:
        for name in names:
            ending = _failure(lambda name=name: find_stream(client, name, bucket).delete())
            missing = ending is not None and ending.code == NOT_THERE and force
            if ending is not None and not missing:
                complain(f"{name}: {ending.message}", ending.code)
                code = code or ending.code
            elif as_json:
                print_json({"stream": name, "deleted": not missing})
    return code


def _failure(delete: Command) -> Ending | None:
    """Delete a stream. Returns the failure, if there was one."""
    try:
        delete()
    except Exception as error:
        ending = explain(error)
        if ending is None:
            raise
        return ending
    return None


@click.command()
@click.argument("source", metavar="SOURCE")
@click.argument("name", metavar="STREAM")
@bucket_option
@offset_option("--offset", "The offset at which the fork begins.  [default: the tail of SOURCE]")
@click.option(
    "--sub-offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="Fork N messages after --offset; N bytes if the stream is not JSON.",
)
@lifetime_options
@json_option
@server_options
def fork(source: str, name: str, bucket: str | None, *, as_json: bool, **branch: Unpack[Branch]) -> None:
    """Create STREAM as a fork of SOURCE: it begins with the messages of SOURCE. Both are in the same bucket."""
    with open_stream(source, bucket) as stream:
        made = stream.fork(name, **branch)
        found = made.head()
    if as_json:
        print_json({"source": source} | describe(name, found))
    else:
        click.echo(f"forked {made.url} at {found.offset}")


@click.command()
@click.argument("prefix", default="")
@bucket_option
@click.option("-l", "--long", "detailed", is_flag=True, help="Print a table with details.")
@json_option
@server_options
def ls(prefix: str, bucket: str | None, *, detailed: bool, as_json: bool) -> None:
    """List the streams whose names begin with PREFIX, or all, one per line.

    With --json each is an object in a line.
    """
    with open_client() as client:
        found = root_of(client, bucket).list(prefix)
        if detailed and not as_json:
            rows = [_row(stream) for stream in found]
            click.echo("\n".join(align([TITLES, *rows], NUMBERS)))
            return
        for stream in found:
            if as_json:
                print_json(facts_of(stream, bucket))
            else:
                click.echo(stream.name)


def facts_of(stream: "StreamInfo", bucket: str | None) -> dict[str, object]:
    """Return an entry of a list as JSON keys."""
    return {
        "stream": stream.name,
        "bucket": bucket,
        "status": stream.status,
        "content_type": stream.content_type,
        "offset": f"{stream.tail_offset:016}",
        "earliest_offset": f"{stream.earliest_offset:016}",
        "snapshot_offset": None if stream.snapshot_offset is None else f"{stream.snapshot_offset:016}",
        "size_bytes": stream.size_bytes,
        "created_at_ms": stream.created_at_ms,
        "last_write_at_ms": stream.last_write_at_ms,
    }


def _row(stream: "StreamInfo") -> tuple[str, ...]:
    return (
        stream.status.lower(),
        stream.content_type,
        str(stream.size_bytes),
        f"{stream.tail_offset:016}",
        format_time(stream.last_write_at_ms),
        stream.name,
    )
