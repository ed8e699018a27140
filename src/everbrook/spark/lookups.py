"""Lookups: where messages end that lie some way behind an offset, asked of the server for many streams at once."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing

from everbrook.protocol.errors import NotFound, OffsetGone, PreconditionFailed
from everbrook.spark.connection import Connection
from everbrook.spark.limiting import Question
from everbrook.spark.pipelining import OK, Broken, Pipeline, target_of

_CHANGED = (NotFound, OffsetGone, PreconditionFailed)

logger = logging.getLogger(__name__)

MANY = 8
"""From so many questions on they go over a connection of their own, without waiting for each other."""


def look_up_all(connection: Connection, questions: Sequence[Question]) -> list[str]:
    """Answer questions, in their order."""
    answers: list[str] = []
    pipeline = connection.pipeline() if len(questions) >= MANY else None
    if pipeline is not None:
        with closing(pipeline):
            answers += _pipelined(connection, questions, pipeline)
    return answers + [_look_up(connection, each) for each in questions[len(answers) :]]


def _look_up(connection: Connection, question: Question) -> str:
    """Answer a question. Nothing is behind the offset if the stream has changed since it was looked at."""
    try:
        return connection.look_up(question.name, question.query, question.incarnation)
    except _CHANGED as refusal:
        logger.info("%r has changed, and is looked at again: %s", question.name, refusal)
        return question.offset


def _pipelined(connection: Connection, questions: Sequence[Question], pipeline: Pipeline) -> Iterator[str]:
    """Answer as many questions as the connection holds for. What is refused is asked as usual."""
    targets = (target_of(connection.root.stream(each.name), each.query) for each in questions)
    try:
        for each, answer in zip(questions, pipeline.head(targets, connection.transport.credentials), strict=True):
            told = answer.headers.get(b"stream-incarnation", b"").decode()
            same = answer.status == OK and each.incarnation in {"", told}
            offset = answer.headers.get(b"stream-offset") if same else None
            yield _look_up(connection, each) if offset is None else offset.decode()
    except Broken as error:
        logger.info("the rest is asked one by one: %s", error)
