"""``everbrook export``: writes streams to an archive, each as of one moment; an interrupted export is continued."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click
from msgspec import Struct, structs

from everbrook.cli.commands.archive_file import Archive, ArchiveFile, ArchivePipe, UnfinishedExport
from everbrook.cli.commands.archive_format import (
    VERSION,
    ArchiveLine,
    BucketLine,
    EndLine,
    InvalidArchive,
    StreamLine,
    format_line,
    format_message,
    format_snapshot,
)
from everbrook.cli.connection import bucket_option, find_stream, open_client, root_of, server_options
from everbrook.cli.exits import REFUSED, explain
from everbrook.cli.terminal.output import Advance, bytes_out, complain, format_moment, json_option, print_json, progress
from everbrook.protocol.errors import OffsetGone

if TYPE_CHECKING:
    from everbrook import Client
    from everbrook.client.models import BucketInfo, Snapshot, StreamInfo


ATTEMPTS = 5


class StreamMoved(Exception):
    """A stream was cut or re-created while it was exported."""


class Source:
    """Writes one stream of a server to an archive."""

    def __init__(
        self, client: "Client", archive: Archive, bucket: str | None, info: "StreamInfo", advance: Advance
    ) -> None:
        self._stream = find_stream(client, info.name, bucket)
        self._archive = archive
        self._bucket = bucket
        self._info = info
        self._advance = advance
        self._at_byte = archive.position()
        self.title = f"{bucket}/{info.name}" if bucket else info.name

    def run(self) -> int:
        """Write the stream, and return the number of its messages."""
        begun = self._resumed()
        for _ in range(ATTEMPTS):
            try:
                begun = begun or self._begin()
                return self._write(begun)
            except OffsetGone:
                begun = None
                if not self.rewind():
                    break
        raise StreamMoved(f"{self.title} was cut while it was exported: export it again, to a file")

    def rewind(self) -> bool:
        """Remove the lines of the stream."""
        return self._archive.rewind(self._at_byte)

    def _resumed(self) -> UnfinishedExport | None:
        """Return the progress of an interrupted export, if the stream is still the same."""
        begun, self._archive.progress.begun = self._archive.progress.begun, None
        if begun is None:
            return None
        if (
            begun.stream.place == (self._bucket, self._info.name)
            and begun.stream.created_at_ms == self._info.created_at_ms
        ):
            self._at_byte = begun.at_byte
            return begun
        self._archive.rewind(begun.at_byte)
        self._at_byte = begun.at_byte
        return None

    def _begin(self) -> UnfinishedExport:
        snapshot, line = self._as_of_now()
        self._archive.write(format_line(line))
        if snapshot is not None:
            self._archive.write(format_snapshot(snapshot.offset, snapshot.content_type, snapshot.data))
        return UnfinishedExport(self._at_byte, line, int(line.earliest_offset))

    def _as_of_now(self) -> "tuple[Snapshot | None, StreamLine]":
        """Describe the stream together with its snapshot. If the snapshot is replaced meanwhile, fetch both again."""
        while True:
            head = self._stream.head()
            snapshot = self._stream.snapshot() if head.snapshot_offset else None
            if head.snapshot_offset == (snapshot and snapshot.offset):
                break
        line = StreamLine(
            self._info.name,
            head.content_type,
            head.offset,
            self._info.created_at_ms,
            bucket=self._bucket,
            earliest_offset=head.earliest_offset or "0" * 16,
            ttl_secs=head.ttl_secs,
            expires_at=format_moment(head.expires_at) if head.expires_at else None,
            retention=head.retention,
            closed=head.closed,
        )
        return snapshot, line

    def _write(self, begun: UnfinishedExport) -> int:
        """Write the messages that are missing, and the end."""
        line = begun.stream
        messages = begun.messages
        if begun.next_offset < int(line.tail_offset):
            for page in self._stream.frames(f"{begun.next_offset:016}", until=line.tail_offset):
                lines = [format_message(frame.offset, frame.time, frame.payload, json=line.json) for frame in page]
                self._archive.write(b"".join(lines))
                messages += len(lines)
                self._advance(self.title, len(page.data))
        self._archive.write(format_line(EndLine(line.tail_offset, messages)))
        return messages


class Choice(TypedDict):
    """The options of an export: its streams, and the treatment of an existing file."""

    names: tuple[str, ...]
    bucket: str | None
    prefix: str | None
    everything: bool
    resume: bool
    force: bool


class Exported(Struct):
    streams: int = 0
    messages: int = 0
    found_whole: int = 0
    failed: int = 0


@click.command()
@click.argument("names", metavar="[STREAM]...", nargs=-1)
@bucket_option
@click.option("--prefix", metavar="PREFIX", help="Export the streams whose names begin with PREFIX.")
@click.option("--all", "everything", is_flag=True, help="Export all streams, those of all buckets included.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file to write.  [default: standard output]",
)
@click.option("--resume", is_flag=True, help="Continue a FILE that an interrupted export left.")
@click.option("--force", is_flag=True, help="Replace FILE.")
@json_option
@server_options
def export(output: Path | None, *, as_json: bool, **how: Unpack[Choice]) -> int:
    """Write each STREAM, those of a --prefix, a --bucket, or --all, as JSON lines that `everbrook import` reads.

    A stream is written as of one moment, with its configuration, its snapshot, and the offset and time of each
    message. A fork is written as a stream of its own.
    """
    _check(output, how)
    archive = _open(output, force=how["force"])
    try:
        with open_client(patient=True) as client:
            exported = _export(client, archive, how)
    finally:
        archive.close()
    if as_json and output:
        print_json(structs.asdict(exported))
    elif output:
        already = f" ({exported.found_whole} were there already)" if exported.found_whole else ""
        click.echo(f"exported {exported.streams} streams{already} with {exported.messages} messages to {output}")
    return REFUSED if exported.failed else 0


def _check(output: Path | None, how: Choice) -> None:
    if how["names"] and (how["prefix"] is not None or how["everything"]):
        raise click.UsageError("name streams, or pass --prefix or --all, not both")
    if how["everything"] and (how["bucket"] or how["prefix"] is not None):
        raise click.UsageError("--all can't be combined with --bucket or --prefix")
    if not (how["names"] or how["everything"] or how["bucket"] or how["prefix"] is not None):
        raise click.UsageError("nothing to export: pass names of streams, --prefix, --bucket or --all")
    if output is None:
        if how["resume"] or how["force"]:
            raise click.UsageError("--resume and --force need a file: name it with --output")
    elif output.exists() and output.stat().st_size and not (how["resume"] or how["force"]):
        raise click.UsageError(f"{output} exists already: --resume continues it, --force replaces it")


def _open(output: Path | None, *, force: bool) -> Archive:
    if output is None:
        return ArchivePipe(bytes_out())
    try:
        if output.exists() and not output.is_file():
            # A device or a named pipe has no earlier lines to continue.
            return ArchivePipe(click.get_current_context().with_resource(output.open("wb")))
        if force:
            output.unlink(missing_ok=True)
        return ArchiveFile(output)
    except OSError as error:
        raise click.UsageError(f"{output} can't be written: {error.strerror}") from error
    except InvalidArchive as error:
        raise click.UsageError(f"{output} is not an archive that can be continued: {error}") from error


def _export(client: "Client", archive: Archive, how: Choice) -> Exported:
    exported = Exported()
    if archive.empty:
        archive.write(format_line(ArchiveLine(VERSION)))
    buckets = _chosen_buckets(client, how)
    _write_buckets(archive, buckets)
    with progress("exporting") as advance:
        for bucket, info in _chosen(client, buckets, how):
            created_at_ms = archive.progress.whole.get((bucket, info.name))
            if created_at_ms == info.created_at_ms:
                exported.found_whole += 1
                continue
            if created_at_ms is not None:
                exported.failed += 1
                complain(f"{info.name} was re-created since it was exported: export it to another file", REFUSED)
                continue
            _count(exported, Source(client, archive, bucket, info, advance))
    if archive.progress.begun is not None:
        # The interrupted export had begun this stream, which has been deleted since.
        archive.rewind(archive.progress.begun.at_byte)
    return exported


def _count(exported: Exported, source: Source) -> None:
    """Export a stream. If it fails, the error is reported, and the others continue."""
    try:
        exported.messages += source.run()
        exported.streams += 1
    except StreamMoved as error:
        exported.failed += 1
        complain(str(error), REFUSED)
    except Exception as error:
        ending = explain(error)
        if ending is None or getattr(error, "code", "") not in {"stream_not_found", "stream_gone", "stream_damaged"}:
            raise
        exported.failed += 1
        source.rewind()
        complain(f"{source.title} is not exported: {ending.message}", ending.code)


def _chosen_buckets(client: "Client", how: Choice) -> "list[BucketInfo | None]":
    """Return the buckets to export from. None stands for the base surface."""
    if how["everything"]:
        return [None, *client.buckets()]
    return [None if how["bucket"] is None else client.bucket(how["bucket"]).head()]


def _write_buckets(archive: Archive, buckets: "list[BucketInfo | None]") -> None:
    """Write the buckets that the archive does not have yet, before any stream that could be in them."""
    told = archive.progress
    new = [bucket for bucket in buckets if bucket is not None and bucket.name not in told.buckets]
    if new and told.begun is not None:
        # A rewind removes the lines of an unfinished stream. It must not remove a bucket, so buckets come first.
        archive.rewind(told.begun.at_byte)
        told.begun = None
    for bucket in new:
        archive.write(format_line(BucketLine(bucket.name, bucket.retention)))


def _chosen(
    client: "Client", buckets: "list[BucketInfo | None]", how: Choice
) -> "Iterator[tuple[str | None, StreamInfo]]":
    """Yield the streams to export, in order."""
    for bucket in (None if each is None else each.name for each in buckets):
        if how["names"]:
            yield from ((bucket, _find(client, bucket, name)) for name in how["names"])
        else:
            yield from ((bucket, info) for info in root_of(client, bucket).list(how["prefix"] or ""))


def _find(client: "Client", bucket: str | None, name: str) -> "StreamInfo":
    stream = find_stream(client, name, bucket)
    found = next((info for info in root_of(client, bucket).list(name) if info.name == name), None)
    if found is None:
        stream.head()  # raises the error of the server, if the stream does not exist
        raise click.UsageError(f"the server lists no stream {name}: use a name that `everbrook ls` prints")
    return found
