"""``everbrook apikey``: keys made, listed and revoked, also while a server runs."""

import json
from pathlib import Path

import pytest

from everbrook.server.auth.api_keys import ApiKeys
from tests.cli.conftest import Run


@pytest.fixture
def file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DS_AUTH__API_KEYS_PATH", "secret/keys.json")
    return "secret/keys.json"


def test_a_key_is_printed_alone_and_works(run: Run, file: str) -> None:
    ran = run("apikey", "create", "--scope", "read:/v1/stream/a", "--scope", "append:/v1/stream/b", "--for", "1h")
    identity = ApiKeys(file).identify(ran.out.strip().encode())
    assert len(identity.grants) == 2
    assert identity.expires_at_secs is not None
    assert "only this once" in ran.err


def test_a_list_tells_everything_but_secrets(run: Run, file: str) -> None:
    key = run("apikey", "create", "--scope", "read:/", "--note", "for the robot").out.strip()
    ran = run("apikey", "list")
    assert key.split("_")[1] in ran.out
    assert "for the robot" in ran.out
    assert key.split("_", 2)[2] not in ran.out
    document = json.loads(run("apikey", "list", "--json").out)
    assert set(document) == {"id", "scopes", "created_at_secs", "expires_at_secs", "note"}


@pytest.mark.parametrize("whole", [False, True])
def test_a_revoked_key_is_gone(run: Run, file: str, *, whole: bool) -> None:
    kept, gone = (run("apikey", "create", "--scope", "read:/").out.strip() for _ in range(2))
    assert run("apikey", "revoke", gone if whole else gone.split("_")[1]).code == 0
    assert kept.split("_")[1] in Path(file).read_text()
    assert gone.split("_")[1] not in Path(file).read_text()


def test_a_key_that_is_not_there_can_not_be_revoked_and_its_secret_is_not_shown(run: Run, file: str) -> None:
    run("apikey", "create", "--scope", "read:/")
    ran = run("apikey", "revoke", "eb_abc_the-secret")
    assert (ran.code, "has no key 'abc'" in ran.err) == (3, True)
    assert "the-secret" not in ran.err


def test_json_has_the_key_and_its_id(run: Run, file: str) -> None:
    document = json.loads(run("apikey", "create", "--scope", "read:/", "--json").out)
    assert document["key"].startswith(f"eb_{document['id']}_")


@pytest.mark.parametrize("command", [["create", "--scope", "read:/"], ["list"], ["revoke", "x"]])
def test_a_file_must_be_named(run: Run, command: list[str]) -> None:
    ran = run("apikey", *command)
    assert (ran.code, "auth.api_keys_path" in ran.err) == (2, True)


def test_a_list_of_a_missing_file_says_how_to_make_it(run: Run, file: str) -> None:
    ran = run("apikey", "list")
    assert (ran.code, "`everbrook apikey create` creates it" in ran.err) == (1, True)


def test_a_damaged_file_is_not_overwritten(run: Run, folder: Path) -> None:
    (folder / "keys").write_text("precious")
    assert run("apikey", "create", "--scope", "read:/", "--file", "keys").code == 2
    assert run("apikey", "revoke", "x", "--file", "keys").code == 1
    assert (folder / "keys").read_text() == "precious"


def test_bad_scopes_make_no_file(run: Run, file: str) -> None:
    ran = run("apikey", "create", "--scope", "everything")
    assert (ran.code, "such as 'read:/v1/stream/chats'" in ran.err) == (2, True)
    assert not Path(file).exists()


def test_json_says_which_key_was_revoked(run: Run, file: str) -> None:
    key_id = json.loads(run("apikey", "create", "--scope", "read:/", "--json").out)["id"]
    assert json.loads(run("apikey", "revoke", key_id, "--json").out) == {"id": key_id, "revoked": True}
