"""Lookups of the offsets at which messages end, for many streams at once."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing

from everbrook.protocol.errors import NotFound, OffsetGone, PreconditionFailed
from everbrook.spark.connection import Connection
from everbrook.spark.limits import Question
from everbrook.spark.pipelining import OK, Broken, Pipeline, target_of

_CHANGED = (NotFound, OffsetGone, PreconditionFailed)

logger = logging.getLogger(__name__)

MANY = 8
"""From this number on, questions are pipelined over a connection of their own."""


def look_up_all(connection: Connection, questions: Sequence[Question]) -> list[str]:
    """Answer questions, in their order."""
    answers: list[str] = []
    pipeline = connection.pipeline() if len(questions) >= MANY else None
    if pipeline is not None:
        with closing(pipeline):
            answers += _pipelined(connection, questions, pipeline)
    return answers + [_look_up(connection, each) for each in questions[len(answers) :]]


def _look_up(connection: Connection, question: Question) -> str:
    """Answer a question. If the stream has changed since it was planned, the answer is the offset: nothing is read."""
    try:
        return connection.look_up(question.name, question.query, question.incarnation)
    except _CHANGED as refusal:
        logger.info(
            "%r has changed since the batch was planned, and is left to the next one: %s", question.name, refusal
        )
        return question.offset


def _pipelined(connection: Connection, questions: Sequence[Question], pipeline: Pipeline) -> Iterator[str]:
    """Answer questions until the connection breaks. The general client repeats each one that is refused."""
    targets = (target_of(connection.root.stream(each.name), each.query) for each in questions)
    try:
        for each, answer in zip(questions, pipeline.head(targets, connection.transport.credentials), strict=True):
            usable = answer.status == OK and answer.is_of(each.incarnation)
            offset = answer.headers.get(b"stream-offset") if usable else None
            yield _look_up(connection, each) if offset is None else offset.decode()
    except Broken as error:
        logger.info("a pipelined connection broke, so the other lookups are sent one by one: %s", error)
