"""What users may say of a fold: which streams, when each is due, and what becomes of what was folded."""

import os
from collections.abc import Mapping

from msgspec import Struct

from everbrook.durations import parse_duration_ms
from everbrook.protocol.subscriptions.pattern import GlobTrie
from everbrook.spark.given import GivenOptions, InvalidOption, one_of, parse_count
from everbrook.spark.options import OF_SPARK, Selection, ServerOptions, selection_of, server_of

MAX_STREAMS = 10_000
MIN_RATIO_BYTES = 64 * 1024


class Policy(Struct, frozen=True):
    """When a stream is folded: whenever something is new, unless there is a rule. Of two rules one is enough."""

    when_log_is: float | None = None
    """So many times the size of its snapshot."""
    every_ms: int | None = None
    min_log_bytes: int | None = None


class FoldOptions(Struct, frozen=True):
    """What is folded, when, and how it is published."""

    server: ServerOptions
    selection: Selection
    policy: Policy = Policy()
    max_streams: int = MAX_STREAMS
    max_partitions: int = 2
    keep_history: bool = True
    skip_invalid: bool = False
    dead_letters: str | None = None
    function: str | None = None


def parse_folds(options: Mapping[str, str]) -> FoldOptions:
    """Read the options of a fold, or say what is wrong with them."""
    given = GivenOptions(options, of="fold")
    given.ignore(OF_SPARK)
    policy = Policy(
        given.optional("whenLogIs", parse_ratio),
        given.optional("every", parse_duration_ms),
        given.optional("minLogBytes", parse_count),
    )
    parsed = FoldOptions(
        server_of(given),
        Selection(),
        policy,
        max_streams=given.parsed("maxStreamsPerTrigger", parse_count, MAX_STREAMS),
        max_partitions=given.parsed("maxPartitions", parse_count, max(2, os.cpu_count() or 1)),
        keep_history=given.parsed("history", one_of("keep", "drop"), "keep") == "keep",
        skip_invalid=given.parsed("invalid", one_of("refuse", "skip"), "refuse") == "skip",
        dead_letters=given.text("deadLetters"),
        function=given.optional("function", parse_function),
    )
    return _checked(parsed, selection_of(given))


def _checked(parsed: FoldOptions, selection: Selection) -> FoldOptions:
    if parsed.function is not None and (parsed.skip_invalid or parsed.dead_letters is not None):
        raise InvalidOption("invalid and deadLetters are for changes: a function decides itself what it takes")
    if parsed.dead_letters is not None and not parsed.skip_invalid:
        raise InvalidOption("deadLetters is for messages that are left out: set invalid to skip too")
    if parsed.skip_invalid and not parsed.keep_history and parsed.dead_letters is None:
        raise InvalidOption(
            "with invalid=skip and history=drop messages that are no changes would be lost: name a stream for them "
            "with deadLetters"
        )
    if parsed.dead_letters is not None and selects(selection, parsed.dead_letters):
        raise InvalidOption(f"deadLetters is {parsed.dead_letters!r}, which is one of the streams that are folded")
    return FoldOptions(
        **{name: getattr(parsed, name) for name in FoldOptions.__struct_fields__} | {"selection": selection}
    )


def selects(selection: Selection, name: str) -> bool:
    """Tell whether a stream is one of those that are folded."""
    if selection.names:
        return name in selection.names
    if selection.pattern is None:
        return name.startswith(selection.prefix)
    patterns = GlobTrie[bool]()
    patterns.add(selection.pattern, value=True)
    return bool(patterns.match(name))


def parse_ratio(text: str) -> float:
    """Read how many times one thing is as large as another."""
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if 0 < ratio < float("inf"):
        return ratio
    raise ValueError("must be a number above 0")


def parse_function(text: str) -> str:
    """Read the name of a function."""
    module, _, name = text.partition(":")
    if all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        return text
    raise ValueError("must name a module and a function in it, such as my_module:fold")
