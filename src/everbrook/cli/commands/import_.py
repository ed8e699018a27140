"""``everbrook import``: creates the streams of an archive on a server, each message once, over interruptions."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO

import click
from msgspec import Struct, structs

from everbrook.cli.commands.archive_format import (
    BucketLine,
    EndLine,
    InvalidArchive,
    Line,
    MessageLine,
    SnapshotLine,
    StreamLine,
    parse_line,
)
from everbrook.cli.connection import find_stream, open_client, server_options
from everbrook.cli.exits import REFUSED
from everbrook.cli.terminal.input import INPUT, open_input
from everbrook.cli.terminal.output import complain, json_option, note, print_json, progress

if TYPE_CHECKING:
    from everbrook import Client
    from everbrook.cli.commands.import_target import Target


# Refusals that concern one stream: the import continues with the next. Others concern the user, or all streams.
_OF_THE_STREAM = {400, 404, 405, 409, 410, 412, 413}


class Imported(Struct):
    streams: int = 0
    created: int = 0
    messages: int = 0
    expired: int = 0
    failed: int = 0


@click.command(name="import")
@click.argument("path", metavar="[FILE]", type=INPUT, default="-")
@click.option("--verify", is_flag=True, help="Also compare streams that seem to be complete.")
@json_option
@server_options
def import_(path: str, *, verify: bool, as_json: bool) -> int:
    """Create the streams of FILE, or of standard input, which `everbrook export` has written.

    If it is interrupted, run it again: it continues where it stopped, and appends no message twice. Messages that a
    stream has already must be those of the archive.
    """
    with open_client() as client:
        next(iter(client.buckets()), None)  # patience would delay the report of a wrong URL
    with open_client(patient=True) as client:
        done = import_streams(client, path, verify=verify)
    if as_json:
        print_json(structs.asdict(done))
    else:
        click.echo(_summary(done))
    return REFUSED if done.failed else 0


def import_streams(client: "Client", path: str, *, verify: bool) -> Imported:
    """Create the streams of an archive. If the import ends early, its progress is reported."""
    work = _Import(client, verify=verify)
    with open_input(path) as file, _telling_what_was_done(work):
        _feed(work, file)
    return work.done


def _summary(done: Imported) -> str:
    told = f"imported {done.streams} streams, {done.created} of them new, and appended {done.messages} messages"
    return f"{told}; not imported as a whole: {done.failed}" if done.failed else told


@contextmanager
def _telling_what_was_done(work: "_Import") -> Iterator[None]:
    """If the import ends early, report the progress and how to continue."""
    try:
        yield
    except click.ClickException:
        raise
    except Exception:
        if work.title:
            work.count()
            note(f"{_summary(work.done)}; it stopped in {work.title}: run it again to continue there")
        raise


def _feed(work: "_Import", file: BinaryIO) -> None:
    with progress("importing") as advance:
        number = 0
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                work.take(_parsed(text, number))
            except ValueError as error:
                raise click.UsageError(f"{_name(file)}: {InvalidArchive(number, str(error))}") from error
            except InvalidArchive as error:
                raise click.UsageError(f"{_name(file)}: {error}") from error
            advance(work.title, len(text))
    work.end()
    if not number:
        raise click.UsageError(f"{_name(file)} is empty")


def _parsed(text: bytes, number: int) -> Line:
    if not text.endswith(b"\n"):
        raise InvalidArchive(number, "the archive ends in the middle of a line; export it again with --resume")
    return parse_line(text, number)


def _require_name(line: StreamLine) -> None:
    """Refuse a URL instead of a name: a file must not choose the server that gets the token."""
    if line.stream.lower().startswith(("http://", "https://", "/")):
        raise ValueError(f"the name of a stream must be its path below the stream root, got {line.stream!r}")


def _name(file: BinaryIO) -> str:
    return str(getattr(file, "name", "standard input")).replace("<stdin>", "standard input")


class _Import:
    """Imports the lines of an archive one by one."""

    def __init__(self, client: "Client", *, verify: bool) -> None:
        self._client = client
        self._verify = verify
        self._target: Target | None = None
        self._skipping = False
        self.title = ""
        self.done = Imported()

    def take(self, line: Line) -> None:
        if isinstance(line, BucketLine):
            self._client.bucket(line.bucket).create(retention=line.retention)
            return
        if isinstance(line, StreamLine):
            self.end()
        with self._passing_over():
            self._take(line)

    @contextmanager
    def _passing_over(self) -> Iterator[None]:
        """Report a stream that is refused, or differs from the archive, and continue with the others."""
        from everbrook.cli.commands.import_target import Unlike
        from everbrook.protocol.errors import ProtocolError

        try:
            yield
        except Unlike as error:
            self._fail(str(error))
        except ProtocolError as error:
            if error.status not in _OF_THE_STREAM:
                raise
            self._fail(self._refused(error.detail))

    def _refused(self, detail: str) -> str:
        if self._target is None:
            return f"{self.title} is refused: {detail}; none of it is imported"
        position = self._target.position
        return f"{self.title} is refused from {position} on: {detail}; the messages before that are imported"

    def _take(self, line: Line) -> None:
        match line:
            case StreamLine():
                self._begin(line)
            case MessageLine() | SnapshotLine() | EndLine() if self._skipping:
                pass
            case MessageLine():
                self._current().take(line)
            case SnapshotLine():
                self._current().take_snapshot(line)
            case EndLine():
                self._finish(line)

    def _begin(self, line: StreamLine) -> None:
        from everbrook.cli.commands.import_target import Target

        _require_name(line)
        self.title, self._skipping = line.title, False
        if line.expires_at and datetime.fromisoformat(line.expires_at) <= datetime.now(UTC):
            note(f"{line.title} expired at {line.expires_at}: it is not imported")
            self.done.expired += 1
            self._skipping = True
            return
        self._target = Target(find_stream(self._client, line.stream, line.bucket), line, verify=self._verify)

    def _current(self) -> "Target":
        if self._target is None:
            raise ValueError("no line before it names its stream")
        return self._target

    def _finish(self, line: EndLine) -> None:
        target = self._current()
        target.finish(line)
        self.done.streams += 1
        self.done.created += target.created
        self.count()
        self._target = None

    def end(self) -> None:
        """Finish at the end of the archive. A stream without its last line is refused."""
        with self._passing_over():
            if self._target is not None:
                self._target.flush()
                self._fail(
                    f"the archive has only the beginning of {self.title}; export it again with --resume, "
                    "then import again"
                )

    def count(self) -> None:
        """Count the messages that were appended to the unfinished stream, if there is one."""
        if self._target is not None:
            self.done.messages += self._target.appended

    def _fail(self, message: str) -> None:
        complain(message, REFUSED)
        self.count()
        self.done.failed += 1
        self._target, self._skipping = None, True
