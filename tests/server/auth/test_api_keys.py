"""API keys: who holds one, and what the file has of it."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from everbrook.protocol.errors import TokenExpired, TokenInvalid
from everbrook.server.auth.api_keys import ApiKey, ApiKeyFile, ApiKeys, format_file, make_key, parse_file
from everbrook.server.auth.scopes import parse_scopes
from everbrook.settings import SettingsError

SCOPES = "read:/v1/stream/a append:/v1/stream/b"
NOW = int(time.time())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def store(path: Path, *keys: ApiKey) -> ApiKeys:
    path.write_bytes(format_file(ApiKeyFile(keys)))
    return ApiKeys(str(path))


def test_whoever_holds_a_key_is_its_id_and_has_its_scopes(path: Path) -> None:
    key, stored = make_key(SCOPES, NOW, NOW + 86_400)
    identity = store(path, make_key("admin:/", NOW)[1], stored).identify(key.encode())
    assert (identity.subject, identity.source, identity.expires_at_secs) == (stored.id, "api_key", NOW + 86_400)
    assert identity.grants == parse_scopes(SCOPES)


def test_a_key_has_256_random_bits_and_a_form_of_its_own() -> None:
    keys = {make_key("read:/", NOW)[0] for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch(r"eb_[a-z2-9]{12}_[A-Za-z0-9_-]{43}", key) for key in keys)


def test_the_file_does_not_have_the_key(path: Path) -> None:
    key, stored = make_key(SCOPES, NOW)
    store(path, stored)
    assert key.split("_", 2)[2] not in path.read_text()


@pytest.mark.parametrize(
    "change", [lambda key: key[:-1] + "%", lambda key: key + "x", lambda _: "eb_", lambda _: "eb_x_y"]
)
def test_what_is_no_key_is_refused(path: Path, change: object) -> None:
    assert callable(change)
    key, stored = make_key(SCOPES, NOW)
    with pytest.raises(TokenInvalid, match="an API key is eb_"):
        store(path, stored).identify(change(key).encode())


@pytest.mark.parametrize("position", [3, 16, 30, -1])
def test_a_key_with_one_wrong_character_is_refused(path: Path, position: int) -> None:
    key, stored = make_key(SCOPES, NOW)
    wrong = list(key)
    wrong[position] = "a" if wrong[position] != "a" else "b"
    with pytest.raises(TokenInvalid):
        store(path, stored).identify("".join(wrong).encode())


def test_the_secret_of_another_key_is_refused(path: Path) -> None:
    (one, first), (two, second) = make_key(SCOPES, NOW), make_key(SCOPES, NOW)
    mixed = f"eb_{first.id}_{two.split('_', 2)[2]}"
    with pytest.raises(TokenInvalid):
        store(path, first, second).identify(mixed.encode())
    assert one != mixed


def test_a_key_ends_in_its_time(path: Path) -> None:
    key, stored = make_key(SCOPES, NOW - 60, NOW - 1)
    with pytest.raises(TokenExpired, match=f"expired at {NOW - 1}"):
        store(path, stored).identify(key.encode())


def test_a_revoked_key_is_refused_without_a_restart(path: Path) -> None:
    key, stored = make_key(SCOPES, NOW)
    keys = store(path, stored)
    path.write_bytes(format_file(ApiKeyFile()))
    keys.reload()
    with pytest.raises(TokenInvalid, match="was revoked"):
        keys.identify(key.encode())


def test_a_key_has_its_id_for_a_subject_in_its_scopes(path: Path) -> None:
    key, stored = make_key("read:/v1/stream/{sub}", NOW)
    (grant,) = store(path, stored).identify(key.encode()).grants
    assert grant.prefix == f"/v1/stream/{stored.id}".encode()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"keys": [], "version": 2}', '{"keys": [{}]}', '{"key": []}'])
def test_a_damaged_file_is_refused_at_the_start(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"auth\.api_keys_path: .*can't be used"):
        ApiKeys(str(path))


def test_bad_scopes_make_no_key() -> None:
    with pytest.raises(ValueError, match="the verbs of a scope"):
        make_key("write:/", NOW)


@pytest.mark.parametrize("change", [{"sha256": "é" * 64}, {"sha256": "0" * 63}, {"id": "short"}, {}])
def test_a_file_with_a_damaged_key_or_one_twice_is_refused(change: dict[str, str]) -> None:
    _, key = make_key("admin:/", NOW)
    with pytest.raises(ValueError, match=r"is damaged|two of its keys have the same id"):
        parse_file(format_file(ApiKeyFile((key, replace(key, **change)))))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
IDS = st.text("abc123", min_size=12, max_size=12)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
KEYS = st.builds(ApiKey, IDS, DIGESTS, TEXTS, st.integers(0, 2**40), st.none() | st.integers(0, 2**40), TEXTS)


@given(st.lists(KEYS, max_size=4, unique_by=lambda key: key.id))
def test_a_file_is_read_as_it_was_written(keys: list[ApiKey]) -> None:
    file = ApiKeyFile(tuple(keys))
    assert parse_file(format_file(file)) == file
