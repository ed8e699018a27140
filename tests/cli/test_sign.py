"""``everbrook sign``: URLs that can be read without anything else."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from everbrook.protocol.errors import TokenInvalid
from everbrook.server.auth.scopes import Identity
from everbrook.server.auth.signed_urls import SignedUrls
from everbrook.server.exchange import Request
from tests.cli.conftest import Run


@pytest.fixture
def file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DS_AUTH__URL_KEYS_PATH", "urls.json")
    return "urls.json"


def ask(file: str, url: str, path: str | None = None) -> Identity:
    parts = urlsplit(url.strip())
    return SignedUrls(file).identify(Request(b"GET", (path or parts.path).encode(), parts.query.encode(), {}, b""))


@pytest.mark.parametrize(
    "target, path",
    [
        ("http://h:1/v1/stream/a", "/v1/stream/a"),
        ("https://h/streams/v1/stream/a?offset=-1", "/v1/stream/a"),
        ("/ds/bucket/a", "/ds/bucket/a"),
        ("a/b", "/v1/stream/a/b"),
        ("/v1/stream/%C3%A4", "/v1/stream/%C3%A4"),
    ],
)
def test_a_signed_url_reads_its_stream(run: Run, file: str, target: str, path: str) -> None:
    run("sign", "--new-key")
    ran = run("sign", target, "--for", "5m")
    assert (ran.code, ran.err) == (0, "")
    assert ask(file, ran.out, path).source == "signed_url"


def test_a_new_key_leaves_old_urls_good_until_the_old_one_is_dropped(run: Run, file: str) -> None:
    old_key = run("sign", "--new-key").err.split()[7]
    url = run("sign", "a").out
    run("sign", "--new-key")
    assert ask(file, url).subject == old_key
    run("sign", "--drop-key", old_key)
    with pytest.raises(TokenInvalid):
        ask(file, url)


def test_the_file_is_for_its_owner_alone(run: Run, file: str) -> None:
    run("sign", "--new-key")
    assert Path(file).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        ([], 2, "nothing to sign"),
        (["/metrics"], 2, "there is nothing at"),
        (["/v1/stream/__ds/streams"], 2, "a signed URL is valid only for a stream"),
        (["/v1/stream/a b"], 2, "percent-encode"),
        (["/v1/stream/a?signature=x"], 2, "has a signature already"),
        (["a", "--file", "missing"], 1, "`everbrook sign --new-key` creates it"),
        (["--drop-key", "nothing"], 1, "has no key 'nothing'"),
    ],
)
def test_wrong_use_is_said(run: Run, file: str, arguments: list[str], code: int, said: str) -> None:
    run("sign", "--new-key")
    ran = run("sign", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_the_only_key_is_not_dropped(run: Run, file: str) -> None:
    key = run("sign", "--new-key").err.split()[7]
    assert "is the only key" in run("sign", "--drop-key", key).err


def test_a_file_must_be_named(run: Run) -> None:
    assert "auth.url_keys_path" in run("sign", "a").err


def test_json_has_the_url_and_its_end(run: Run, file: str) -> None:
    document = json.loads(run("sign", "a", "--new-key", "--json").out)
    assert ask(file, document["url"]).expires_at_secs == document["expires_at_secs"]
