"""``everbrook sub``: subscriptions, and a worker that runs a command for each batch of messages."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from everbrook.cli.connection import bucket_option, open_client, root_of, server_options
from everbrook.cli.terminal.output import Command, align, json_option, note, print_json, show

if TYPE_CHECKING:
    from everbrook import Subscription
    from everbrook.client.leases import Batch
    from everbrook.client.models import SubscriptionInfo

Decorator = Callable[[Any], Any]
STREAMS = click.argument("streams", metavar="STREAM...", nargs=-1, required=True)


class SubscriptionOptions(TypedDict):
    """The configuration of a subscription."""

    pattern: str | None
    streams: tuple[str, ...]
    webhook: str | None
    wake_stream: str | None
    lease_ttl_ms: int | None
    description: str | None


def of_subscription(*arguments: Decorator) -> Decorator:
    """Give a command the argument ID, these `arguments`, and the options that all commands of subscriptions share."""

    def decorate(command: Command) -> Command:
        command = bucket_option(json_option(server_options(command)))
        for argument in reversed((click.argument("id_", metavar="ID"), *arguments)):
            command = argument(command)
        return command

    return decorate


@click.group()
def sub() -> None:
    """Create, show and delete subscriptions, and run workers for them."""


@sub.command()
@click.argument("id_", metavar="ID")
@bucket_option
@click.option("--pattern", metavar="GLOB", help="The streams: * matches one segment of a path, ** any number.")
@click.option("--stream", "streams", multiple=True, metavar="STREAM", help="A stream by its name; repeatable.")
@click.option("--webhook", metavar="URL", help="The URL to which the server sends wakes.")
@click.option("--wake-stream", metavar="STREAM", help="The stream that workers watch; it must exist.")
@click.option(
    "--lease-ttl-ms",
    type=int,
    metavar="N",
    help="The lease: how long a worker may be silent, in milliseconds.  [default: 30000]",
)
@click.option("--description", metavar="TEXT", help="A description of the subscription.")
@json_option
@server_options
def create(id_: str, bucket: str | None, *, as_json: bool, **configuration: Unpack[SubscriptionOptions]) -> None:
    """Create the subscription ID, with either --webhook or --wake-stream.

    Existing streams begin at their tails, streams that are created later at their beginnings.
    """
    if (configuration["webhook"] is None) == (configuration["wake_stream"] is None):
        raise click.UsageError("pass either --webhook, or --wake-stream for workers (`everbrook sub work`)")
    if not (configuration["pattern"] or configuration["streams"]):
        raise click.UsageError("the streams are missing: pass --pattern, --stream, or both")
    with open_client() as client:
        found = root_of(client, bucket).subscription(id_).create(**configuration)
    if as_json:
        print_json(_facts(found))
    else:
        click.echo(f"subscribed {id_}")


@sub.command(name="show")
@of_subscription()
def show_subscription(id_: str, bucket: str | None, *, as_json: bool) -> None:
    """Print the subscription ID, and its streams with their acked offsets."""
    with open_client() as client:
        found = root_of(client, bucket).subscription(id_).read()
    facts = _facts(found)
    if as_json:
        print_json(facts)
        return
    show({**facts, "streams": len(found.streams), "webhook": found.webhook and found.webhook["url"]}, as_json=False)
    if found.streams:
        rows = [tuple(str(value) for value in stream.values()) for stream in found.streams]
        click.echo("\n" + "\n".join(align([tuple(name.replace("_", " ") for name in found.streams[0]), *rows])))


def _facts(found: "SubscriptionInfo") -> dict[str, object]:
    return {
        "id": found.id,
        "type": found.type,
        "status": found.status,
        "problem": found.problem,
        "pattern": found.pattern,
        "wake_stream": found.wake_stream,
        "webhook": found.webhook,
        "lease_ttl_ms": found.lease_ttl_ms,
        "description": found.description,
        "streams": found.streams,
    }


@sub.command()
@of_subscription()
def rm(id_: str, bucket: str | None, *, as_json: bool) -> None:
    """Delete the subscription ID. Later requests of its workers are refused."""
    with open_client() as client:
        root_of(client, bucket).subscription(id_).delete()
    if as_json:
        print_json({"id": id_, "deleted": True})


@sub.command()
@of_subscription(STREAMS)
def add(id_: str, streams: tuple[str, ...], bucket: str | None, *, as_json: bool) -> None:
    """Link each STREAM to the subscription ID, from its tail on."""
    with open_client() as client:
        root_of(client, bucket).subscription(id_).add(*streams)
    if as_json:
        print_json({"id": id_, "added": streams})


@sub.command()
@of_subscription(STREAMS)
def remove(id_: str, streams: tuple[str, ...], bucket: str | None, *, as_json: bool) -> None:
    """Unlink each STREAM from the subscription ID."""
    with open_client() as client:
        root_of(client, bucket).subscription(id_).remove(*streams)
    if as_json:
        print_json({"id": id_, "removed": streams})


@sub.command(context_settings={"ignore_unknown_options": True})
@of_subscription(click.argument("command", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED))
def work(id_: str, command: tuple[str, ...], bucket: str | None, *, as_json: bool) -> None:
    """Run COMMAND for each batch of new messages of the subscription ID, until SIGINT or SIGTERM.

    Its standard input has the batch: a line for each JSON message, other content unchanged. EVERBROOK_STREAM,
    EVERBROOK_OFFSET, EVERBROOK_NEXT_OFFSET and EVERBROOK_CONTENT_TYPE describe it. Exit code 0 acks the batch; after
    any other exit code a worker gets it again, after 1 to 60 seconds. A batch may arrive twice.

    With --json each handled batch is an object in a line.
    """
    # Imported here: only workers need an event loop.

    with open_client() as client:
        run_worker(root_of(client, bucket).subscription(id_), command, as_json=as_json)


class CommandFailed(Exception):
    """The command could not be run, or ended with an exit code other than 0."""


def run_worker(subscription: "Subscription", command: tuple[str, ...], *, as_json: bool) -> None:
    """Work until SIGINT, or after SIGTERM until the current batch is handled."""
    with _notes():
        try:
            worker = subscription.worker(lambda batch: _handle(batch, command, as_json=as_json))
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        before = signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        try:
            worker.run()
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _notes() -> Iterator[None]:
    """Print log records of the worker in one line. A traceback would show this code, and not the user's command."""
    import logging

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info and record.exc_info[1]
            note(f"{record.getMessage()}: {error}" if error else record.getMessage())

    logger = logging.getLogger("everbrook.client")
    logger.addHandler(handler := Notes(logging.WARNING))
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _handle(batch: "Batch", command: tuple[str, ...], *, as_json: bool) -> None:
    import subprocess

    try:
        ended = subprocess.run(command, input=_input(batch), env=os.environ | _variables(batch), check=False)  # noqa: S603 - the user's own
    except OSError as error:
        raise CommandFailed(f"{command[0]} can't be run: {error.strerror}") from error
    if ended.returncode:
        raise CommandFailed(f"{command[0]} ended with exit code {ended.returncode}")
    if as_json:
        told: dict[str, Any] = {"stream": batch.stream, "offset": batch.offset, "next_offset": batch.next_offset}
        print_json(told)


def _input(batch: "Batch") -> bytes:
    from everbrook.client.content import Kind, kind_of
    from everbrook.protocol.json_text import split_array

    if kind_of(batch.content_type) is not Kind.JSON:
        return batch.data
    messages = split_array(batch.data)
    return b"".join(bytes(message).replace(b"\n", b" ").replace(b"\r", b" ") + b"\n" for message in messages)


def _variables(batch: "Batch") -> dict[str, str]:
    return {
        "EVERBROOK_STREAM": batch.stream,
        "EVERBROOK_OFFSET": batch.offset,
        "EVERBROOK_NEXT_OFFSET": batch.next_offset,
        "EVERBROOK_CONTENT_TYPE": batch.content_type,
    }
