"""Lookups: where messages end that lie some way behind an offset, asked of the server for many streams at once."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing

from everbrook.spark.connection import Connection
from everbrook.spark.limiting import Question
from everbrook.spark.pipelining import OK, Broken, Pipeline, target_of

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
    return answers + [connection.look_up(each.name, each.query) for each in questions[len(answers) :]]


def _pipelined(connection: Connection, questions: Sequence[Question], pipeline: Pipeline) -> Iterator[str]:
    """Answer as many questions as the connection holds for. What is refused is asked as usual."""
    targets = (target_of(connection.root.stream(each.name), each.query) for each in questions)
    try:
        for each, answer in zip(questions, pipeline.head(targets, connection.transport.credentials), strict=True):
            offset = answer.headers.get(b"stream-offset") if answer.status == OK else None
            yield connection.look_up(each.name, each.query) if offset is None else offset.decode()
    except Broken as error:
        logger.info("the rest is asked one by one: %s", error)
