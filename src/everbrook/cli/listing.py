"""``everbrook ls``: the streams of a server or of a bucket, in the order of their names."""

from typing import TYPE_CHECKING

import click

from everbrook.cli.connection import bucket_option, open_client, root_of, server_options
from everbrook.cli.output import align, format_time, json_option, print_json

if TYPE_CHECKING:
    from everbrook.client.models import StreamInfo

TITLES = ("status", "content type", "bytes", "tail", "last write", "stream")
NUMBERS = frozenset({2, 3})


@click.command()
@click.argument("prefix", default="")
@bucket_option
@click.option("-l", "--long", "detailed", is_flag=True, help="Print a table of what is known of each.")
@json_option
@server_options
def ls(prefix: str, bucket: str | None, *, detailed: bool, as_json: bool) -> None:
    """List the streams whose names begin with PREFIX, or all, one a line.

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
    """Give what a list tells of a stream."""
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
