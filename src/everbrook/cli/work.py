"""A worker that runs a command for each batch: exit code 0 acks, anything else gives the batch back."""

import logging
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import click

from everbrook.cli.output import note, print_json
from everbrook.client.content import Kind, kind_of
from everbrook.protocol.json_text import split_array

if TYPE_CHECKING:
    from everbrook import Subscription
    from everbrook.client.leases import Batch


class CommandFailed(Exception):
    """The command did not do its work."""


class Notes(logging.Handler):
    """Says in one line what a worker logs; a traceback would be of our code, not of the command's."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        error = record.exc_info and record.exc_info[1]
        note(f"{record.getMessage()}: {error}" if error else record.getMessage())


def run_worker(subscription: "Subscription", command: tuple[str, ...], *, as_json: bool) -> None:
    """Work until SIGINT, or until the batch under way is done after SIGTERM."""
    logger = logging.getLogger("everbrook.client")
    logger.addHandler(handler := Notes(logging.WARNING))
    try:
        worker = subscription.worker(lambda batch: _handle(batch, command, as_json=as_json))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    before = signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    try:
        worker.run()
    finally:
        signal.signal(signal.SIGTERM, before)
        logger.removeHandler(handler)


def _handle(batch: "Batch", command: tuple[str, ...], *, as_json: bool) -> None:
    try:
        ended = subprocess.run(command, input=_input(batch), env=os.environ | _facts(batch), check=False)  # noqa: S603 - the user's own
    except OSError as error:
        raise CommandFailed(f"{command[0]} can't be run: {error.strerror}") from error
    if ended.returncode:
        raise CommandFailed(f"{command[0]} ended with exit code {ended.returncode}")
    if as_json:
        told: dict[str, Any] = {"stream": batch.stream, "offset": batch.offset, "next_offset": batch.next_offset}
        print_json(told)


def _input(batch: "Batch") -> bytes:
    if kind_of(batch.content_type) is not Kind.JSON:
        return batch.data
    messages = split_array(batch.data)
    return b"".join(bytes(message).replace(b"\n", b" ").replace(b"\r", b" ") + b"\n" for message in messages)


def _facts(batch: "Batch") -> dict[str, str]:
    return {
        "EVERBROOK_STREAM": batch.stream,
        "EVERBROOK_OFFSET": batch.offset,
        "EVERBROOK_NEXT_OFFSET": batch.next_offset,
        "EVERBROOK_CONTENT_TYPE": batch.content_type,
    }
