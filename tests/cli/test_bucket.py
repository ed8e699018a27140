"""``everbrook bucket``, and ``--bucket`` on the commands for streams."""

import json

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("url")


@pytest.fixture
def bucket(run: Run, stream: str) -> str:
    name = f"b-{abs(hash(stream))}"[:40]
    assert run("bucket", "create", name).out == f"created {name}\n"
    return name


def test_a_bucket_that_is_there_is_refused_unless_that_is_fine(run: Run, bucket: str) -> None:
    assert run("bucket", "create", bucket).code == 1
    assert run("bucket", "create", bucket, "--exist-ok").out == f"found {bucket}\n"


def test_buckets_are_listed(run: Run, bucket: str) -> None:
    assert run("bucket", "ls", bucket).out == f"{bucket}\n"
    titles, row = run("bucket", "ls", "-l", bucket).out.splitlines()
    assert (titles.split(), row.split()[1:]) == (["created", "retention", "bucket"], ["-", bucket])


def test_a_list_without_buckets_is_empty(run: Run) -> None:
    assert run("bucket", "ls", "no-such-prefix").out == ""


def test_a_bucket_is_shown_with_its_streams_and_policy(run: Run) -> None:
    run("bucket", "create", "shown", "--retention", "max-age=60")
    run("create", "-b", "shown", "s")
    told = json.loads(run("bucket", "show", "shown", "--json").out)
    assert (told["bucket"], told["streams"], told["retention"]) == ("shown", 1, "max-age=60")
    assert run("bucket", "show", "shown").out.splitlines()[-1] == "streams:    1"


def test_streams_of_a_bucket_are_its_own(run: Run, bucket: str, url: str) -> None:
    assert run("create", "-b", bucket, "s").out == f"created {url}/ds/{bucket}/s\n"
    run("append", "-b", bucket, "s", "1")
    assert run("read", "-b", bucket, "s").out == "1\n"
    assert run("ls", "-b", bucket).out == "s\n"
    assert run("head", "s").code == 3


def test_a_bucket_is_deleted_when_it_is_empty(run: Run, bucket: str) -> None:
    run("create", "-b", bucket, "s")
    refused = run("bucket", "rm", bucket)
    run("rm", "-b", bucket, "s")
    assert (refused.code, "`everbrook rm --bucket NAME …` deletes its streams" in refused.err) == (1, True)
    assert json.loads(run("bucket", "rm", bucket, "--json").out) == {"bucket": bucket, "deleted": True}


@pytest.mark.parametrize(
    "line, code, words",
    [
        (("bucket", "create", "A"), 1, "4 to 64 characters of a-z"),
        (("bucket", "show", "nobucket"), 3, "`everbrook bucket create` makes one"),
        (("bucket", "rm", "nobucket"), 3, "there is no bucket 'nobucket'"),
        (("ls", "-b", "nobucket"), 3, "there is no bucket 'nobucket'"),
        (("create", "-b", "nobucket", "s"), 3, "there is no bucket 'nobucket'"),
    ],
)
def test_what_goes_wrong_is_one_line(run: Run, line: tuple[str, ...], code: int, words: str) -> None:
    ran = run(*line)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert words in ran.err
