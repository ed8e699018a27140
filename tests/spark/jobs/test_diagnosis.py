"""What is said of a query that failed, and whether it is started again."""

import pytest

from everbrook.spark.jobs.supervisor import diagnose

_FRAMES = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    raise E\n    ^^^^^^^\n'
_SPARK = " SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: j [id = 1]\nLogical Plan:\n~Write: x\n"


class StreamingQueryException(Exception):
    """As Spark's is called."""


StreamingQueryException.__module__ = "pyspark.errors.exceptions.captured"


class AnalysisException(Exception):
    """As Spark's is called."""


AnalysisException.__module__ = "pyspark.errors.exceptions.captured"


def failed(raised: str, before: str = "") -> StreamingQueryException:
    return StreamingQueryException(f"[STREAM_FAILED] terminated with exception: {before}{_FRAMES}{raised}{_SPARK}")


def test_the_last_line_of_the_last_traceback_is_what_happened() -> None:
    cause = f"{_FRAMES}KeyError: 'a'\n\nThe above exception was the direct cause of the following exception:\n\n"
    fault = diagnose(failed("everbrook.client.errors.Unreachable: no answer\n", cause), "copy")
    assert (fault.words, fault.restartable) == ("no answer", True)


def test_words_of_several_lines_are_one() -> None:
    assert diagnose(failed("psycopg.OperationalError: connection failed\nIs it running?\n"), "copy").words == (
        "connection failed Is it running?"
    )


def test_what_a_task_raised_is_found_before_the_frames_of_java() -> None:
    text = f"Job aborted: {_FRAMES}everbrook.client.errors.Unreachable: gone\n\n\tat org.apache.spark.X\nCaused by: y"
    assert diagnose(StreamingQueryException(text), "copy").words == "gone"


@pytest.mark.parametrize(
    "kind",
    [
        "everbrook.spark.options.InvalidOption",
        "everbrook.spark.streams.losses.DataLoss",
        "everbrook.spark.postgres.errors.ChangesLost",
        "everbrook.protocol.errors.StreamClosed",
    ],
)
def test_what_a_restart_can_not_mend_is_not_restarted(kind: str) -> None:
    assert not diagnose(failed(f"{kind}: words\n"), "copy").restartable


def test_lost_data_comes_with_the_way_out() -> None:
    words = diagnose(failed("everbrook.spark.streams.losses.DataLoss: 'a' is gone\n"), "copy").words
    assert words.startswith("'a' is gone: `everbrook pipeline reset FILE copy` lets it begin anew")


def test_a_query_that_spark_itself_refuses_is_not_restarted() -> None:
    fault = diagnose(AnalysisException("[UNRESOLVED_COLUMN] no column `x`. SQLSTATE: 42703; line 1 pos 7"), "copy")
    assert (fault.words, fault.restartable) == ("[UNRESOLVED_COLUMN] no column `x`.", False)


def test_any_other_failure_of_spark_is_restarted() -> None:
    fault = diagnose(StreamingQueryException("[STREAM_FAILED] terminated with exception: no space left"), "copy")
    assert (fault.words, fault.restartable) == ("no space left", True)
