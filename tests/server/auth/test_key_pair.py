"""Key pairs of one's own: made, kept, and good for tokens."""

import json
from pathlib import Path

import pytest

from everbrook.server.auth.jwks import parse_key_set
from everbrook.server.auth.key_pair import (
    ALGORITHMS,
    PRIVATE_FILE,
    PUBLIC_FILE,
    load_or_make_pair,
    load_pair,
    make_pair,
    save_pair,
)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"])
def test_a_pair_is_read_as_it_was_written(tmp_path: Path, algorithm: str) -> None:
    pair = make_pair(algorithm)
    save_pair(pair, tmp_path)
    again = load_pair(tmp_path)
    assert (again.algorithm, again.jwk) == (algorithm, pair.jwk)
    assert parse_key_set((tmp_path / PUBLIC_FILE).read_bytes(), ALGORITHMS).find(pair.kid, algorithm)


def test_the_public_file_has_nothing_of_the_private_half(tmp_path: Path) -> None:
    load_or_make_pair(tmp_path)
    (key,) = json.loads((tmp_path / PUBLIC_FILE).read_text())["keys"]
    assert set(key) == {"kty", "n", "e", "kid", "use", "alg"}
    assert (tmp_path / PRIVATE_FILE).stat().st_mode & 0o777 == 0o600


def test_a_pair_is_made_once(tmp_path: Path) -> None:
    assert load_or_make_pair(tmp_path / "keys").jwk == load_or_make_pair(tmp_path / "keys").jwk


def test_a_damaged_public_file_is_said(tmp_path: Path) -> None:
    load_or_make_pair(tmp_path)
    (tmp_path / PUBLIC_FILE).write_text("{}")
    with pytest.raises(ValueError, match=r"jwks\.json must hold one key with its alg"):
        load_pair(tmp_path)


def test_a_pair_does_not_show_its_private_half() -> None:
    assert repr(make_pair("EdDSA", "mine")) == "KeyPair(EdDSA, mine)"
