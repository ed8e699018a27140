"""Signed URLs: what they allow, and everything that they do not."""

import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import STREAM_ROOT
from everbrook.protocol.errors import InvalidQuery, ProtocolError, TokenExpired, TokenInvalid
from everbrook.server.auth.scopes import Identity, format_scopes
from everbrook.server.auth.signed_urls import (
    SignedUrls,
    UrlKey,
    UrlKeyFile,
    format_file,
    make_key,
    parse_file,
    sign,
    signed_name,
)
from everbrook.server.exchange import Request
from everbrook.settings import SettingsError

KEY = make_key(0)
SOON = int(time.time()) + 86_400


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> SignedUrls:
    return signing(tmp_path_factory.mktemp("keys"), KEY)


def signing(folder: Path, *keys: UrlKey) -> SignedUrls:
    (folder / "urls.json").write_bytes(format_file(UrlKeyFile(keys)))
    return SignedUrls(str(folder / "urls.json"))


def ask(urls: SignedUrls, path: bytes, query: str) -> Identity:
    return urls.identify(Request(b"GET", path, query.encode(), {}, b""))


def test_a_signed_url_reads_its_stream_until_it_ends(urls: SignedUrls) -> None:
    identity = ask(urls, b"/v1/stream/a/b", sign(b"/v1/stream/a/b", SOON, KEY))
    assert format_scopes(identity.grants) == "read:/v1/stream/a/b"
    assert (identity.source, identity.expires_at_secs) == ("signed_url", SOON)


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/stream/a%2Fb",
        b"/v1/stream/%61/b",
        b"/v1/stream/a/b/__ds/snapshot",
        b"/v1/stream/a/b/__ds/snapshot/0000000000000003",
        b"/v1/stream/a/b/__ds/bootstrap",
    ],
)
def test_it_goes_with_every_spelling_of_the_stream_and_with_its_parts(urls: SignedUrls, path: bytes) -> None:
    assert ask(urls, path, sign(b"/v1/stream/a/b", SOON, KEY)).grants[0].prefix == b"/v1/stream/a/b"


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/stream/a",
        b"/v1/stream/a/b/c",
        b"/v1/stream/a/B",
        b"/v1/stream/a/b%00",
        b"/v1/stream/a/../a/b",
        b"/v1/stream/a//b",
        b"/v1/stream/a%252Fb",
        b"/ds/a/b",
        b"/v1/stream/__ds/streams",
        b"/v1/stream/__ds/subscriptions/a",
        b"/metrics",
    ],
)
def test_it_goes_with_no_other_path(urls: SignedUrls, path: bytes) -> None:
    with pytest.raises(ProtocolError):
        ask(urls, path, sign(b"/v1/stream/a/b", SOON, KEY))


def test_what_is_beside_the_data_of_a_stream_is_not_read_by_its_signature(urls: SignedUrls) -> None:
    with pytest.raises(TokenInvalid, match="is valid only for a stream, its snapshots and its bootstrap"):
        ask(urls, b"/v1/stream/a/__ds/producers", sign(b"/v1/stream/a", SOON, KEY))


def test_other_parameters_stay_free(urls: SignedUrls) -> None:
    query = f"offset=-1&live=sse&{sign(b'/v1/stream/a', SOON, KEY)}&cursor=7"
    assert ask(urls, b"/v1/stream/a", query).subject == KEY.id


def test_it_ends_in_its_time(urls: SignedUrls) -> None:
    with pytest.raises(TokenExpired, match="expired at 1000"):
        ask(urls, b"/v1/stream/a", sign(b"/v1/stream/a", 1000, KEY))


@pytest.mark.parametrize("old, new", [("expires=1", "expires=2"), ("key=", "key=x"), ("signature=", "signature=A")])
def test_a_changed_parameter_is_refused(urls: SignedUrls, old: str, new: str) -> None:
    with pytest.raises(TokenInvalid, match="not that of this URL"):
        ask(urls, b"/v1/stream/a", sign(b"/v1/stream/a", SOON, KEY).replace(old, new))


@pytest.mark.parametrize("expires", ["", "0", "-1", "+5", "1e9", "99999999999999", " 5", "٣", "%31"])
def test_a_time_in_another_form_is_refused(urls: SignedUrls, expires: str) -> None:
    query = sign(b"/v1/stream/a", SOON, KEY).replace(f"expires={SOON}", f"expires={expires}")
    with pytest.raises(TokenInvalid):
        ask(urls, b"/v1/stream/a", query)


@pytest.mark.parametrize("missing", ["expires", "key", "signature"])
def test_every_parameter_is_needed(urls: SignedUrls, missing: str) -> None:
    query = "&".join(part for part in sign(b"/v1/stream/a", SOON, KEY).split("&") if not part.startswith(missing))
    with pytest.raises(TokenInvalid, match="has the parameters"):
        ask(urls, b"/v1/stream/a", query)


@pytest.mark.parametrize(
    "again", [f"expires={SOON + 10**6}", "key=other", "signature=x"], ids=["expires", "key", "signature"]
)
def test_a_parameter_that_comes_twice_is_refused(urls: SignedUrls, again: str) -> None:
    with pytest.raises(InvalidQuery, match="must be given once"):
        ask(urls, b"/v1/stream/a", f"{again}&{sign(b'/v1/stream/a', SOON, KEY)}")


def test_old_keys_stay_good_until_they_are_dropped(tmp_path: Path) -> None:
    new = make_key(0)
    query = sign(b"/v1/stream/a", SOON, KEY)
    urls = signing(tmp_path, new, KEY)
    assert ask(urls, b"/v1/stream/a", query).subject == KEY.id
    signing(tmp_path, new)
    urls.reload()
    with pytest.raises(TokenInvalid, match="not in use any more"):
        ask(urls, b"/v1/stream/a", query)


def test_an_unknown_key_is_not_one_of_zeros(urls: SignedUrls) -> None:
    """What stands in for a missing key, so that both take the same time, signs nothing."""
    zeros = UrlKey("absent", "A" * 43, 0)
    with pytest.raises(TokenInvalid):
        ask(urls, b"/v1/stream/a", sign(b"/v1/stream/a", SOON, zeros))


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"keys": []}',
        '{"keys": [{"id": "a", "secret": "", "created_at_secs": 0}]}',
        '{"keys": [{"id": "a&b", "secret": "%s", "created_at_secs": 0}]}' % KEY.secret,  # noqa: UP031 - braces
    ],
)
def test_a_damaged_file_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "urls.json").write_text(text)
    with pytest.raises(SettingsError, match=r"auth\.url_keys_path: ") as refused:
        SignedUrls(str(tmp_path / "urls.json"))
    assert KEY.secret not in str(refused.value)


def test_a_key_does_not_show_its_secret() -> None:
    assert KEY.secret not in repr(UrlKeyFile((KEY,)))


SEGMENTS = st.text(st.characters(codec="utf-8", exclude_characters="/\\\x7f", min_codepoint=32), min_size=1, max_size=9)


@given(SEGMENTS.filter(lambda text: text not in {".", "..", "__ds"}), st.integers(SOON, 10**12 - 1))
def test_what_is_signed_is_good_for_exactly_its_stream(urls: SignedUrls, segment: str, expires: int) -> None:
    path = STREAM_ROOT + quote(segment).encode()
    query = sign(signed_name(path), expires, KEY)
    assert ask(urls, path, query).expires_at_secs == expires
    with pytest.raises(TokenInvalid):
        ask(urls, path + b"x", query)


@given(st.lists(st.builds(make_key, st.integers(0, 2**40)), min_size=1, max_size=3))
def test_a_file_is_read_as_it_was_written(keys: list[UrlKey]) -> None:
    file = UrlKeyFile(tuple(keys))
    assert parse_file(format_file(file)) == file
