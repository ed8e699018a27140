"""Options: what is allowed, and what people are told who ask for something else."""

import pickle

import pytest

from everbrook.spark.options import (
    InvalidOption,
    Limits,
    Selection,
    parse_sink,
    parse_source,
    require_batch,
    require_streaming,
)


def test_names_of_options_may_be_written_in_any_case() -> None:
    assert parse_source({"STREAM": "a", "MaxRowsPerTrigger": "5"}).limits.max_rows == 5


def test_an_automatic_limit_is_not_required_of_the_server() -> None:
    assert parse_source({"stream": "a", "maxBytesPerTrigger": "auto"}).limits == Limits(
        None, 32 * 1024**2, required=False
    )


def test_a_path_is_a_stream() -> None:
    assert parse_source({"path": "orders"}).selection == Selection(names=("orders",))


def test_streams_are_separated_by_commas() -> None:
    assert parse_source({"streams": "a, b,a"}).selection.names == ("a", "b")


def test_options_travel_to_executors() -> None:
    options = parse_source({"bucket": "agents", "startingOffsets": '{"a": 5}', "header.X-Team": "blue"})
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - what was pickled in this line


@pytest.mark.parametrize(
    "options, told",
    [
        ({}, "which streams?"),
        ({"stream": "a", "streamPrefix": "b"}, "stream and streamPrefix contradict each other"),
        ({"stream": "a", "path": "b"}, "by its option, and 'b' by its path"),
        ({"stream": "http://127.0.0.1:1/v1/stream/a"}, "is the option url, got 'http://127.0.0.1:1/v1/stream/a'"),
        ({"stream": "/"}, "must be the name of a stream, got '/'"),
        ({"stream": "a", "strem": "b"}, "Did you mean stream?"),
        ({"stream": "a", "maxRowsPerTrigger": "0"}, "maxRowsPerTrigger must be a whole number above 0, got '0'"),
        ({"stream": "a", "failOnDataLoss": "perhaps"}, "failOnDataLoss must be true or false, got 'perhaps'"),
        ({"stream": "a", "envelope": "cooked"}, "envelope must be raw or change, got 'cooked'"),
        ({"stream": "a", "startingOffsets": "first"}, "startingOffsets must be earliest, latest, or JSON"),
        ({"stream": "a", "startingOffsets": '{"a": -2}'}, "has -2 for 'a'"),
        ({"stream": "a", "endingOffsets": "earliest"}, "endingOffsets must be latest"),
        ({"stream": "a", "minPartitions": "5", "maxPartitions": "2"}, "minPartitions is 5, and maxPartitions only 2"),
        ({"streams": "a,,b"}, "streams must be names with commas between them"),
        ({"stream": "a", "token": "x", "tokenFile": "y"}, "token or tokenFile, not both"),
        ({"stream": "a", "keyFile": "y"}, "give certFile too"),
    ],
)
def test_a_mistake_is_told_to_the_person_who_made_it(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOption, match=r".") as refused:
        parse_source(options)
    assert told in str(refused.value)


def test_a_streaming_query_has_no_ending_offsets() -> None:
    with pytest.raises(InvalidOption, match="availableNow"):
        require_streaming(parse_source({"stream": "a", "endingOffsets": "latest"}))


@pytest.mark.parametrize("options", [{"maxRowsPerTrigger": "5"}, {"startingOffsets": "latest"}])
def test_a_batch_has_no_triggers_and_does_not_begin_at_the_end(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOption):
        require_batch(parse_source({"stream": "a", **options}))


def test_options_of_spark_itself_are_passed_over() -> None:
    assert parse_sink({"stream": "a", "checkpointLocation": "/tmp/x"}).stream == "a"  # noqa: S108 - never opened


def test_a_lifetime_is_only_for_streams_that_the_sink_creates() -> None:
    with pytest.raises(InvalidOption, match="autoCreate"):
        parse_sink({"stream": "a", "ttlSecs": "60"})
