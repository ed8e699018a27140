"""Envoy as a part of `everbrook up`: its token, its ports, its certificate, and the program that it is."""

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from everbrook.stack.envoy import VARIABLE, find_envoy, settings_for_envoy
from everbrook.stack.errors import ProgramMissing, WrongParts
from tests.kit.certificates import Authority
from tests.kit.server_process import EVERBROOK, environment
from tests.stack.stacks import Stack, acid, eventually, gone, port_of, refused, up

EDGE_ONLY = ("--without", "postgres", "--without", "pipeline", "--without", "heartbeat")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("part") / "stack"


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Stack]:
    """A server, and Envoy in front of it."""
    with up(folder, *EDGE_ONLY, parts=2) as stack:
        stack.wait()
        yield stack


def token(folder: Path, *arguments: str) -> str:
    command = [EVERBROOK, "token", "--keys", str(folder / "keys"), *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout.strip()


def status(stack: Stack, token: str | None, verify: ssl.SSLContext | bool = True) -> int:  # noqa: FBT001, FBT002
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx2.put(f"{stack.urls['envoy']}/v1/stream/x", headers=headers, verify=verify).status_code


@pytest.mark.parametrize(
    "arguments, expected",
    [((), 201), (("--sub", "alice"), 200), (("--expired",), 401), (("--issuer", "x"), 401), (("--audience", "x"), 403)],
)
def test_a_token_of_the_command_is_judged_by_what_it_says(
    running: Stack, folder: Path, arguments: tuple[str, ...], expected: int
) -> None:
    assert status(running, token(folder, *arguments)) in {expected, 200 if expected == 201 else expected}


def test_without_a_token_nothing_is_answered_but_health(running: Stack) -> None:
    assert status(running, None) == 401
    assert httpx2.get(f"{running.urls['envoy']}/healthz").text == "ok"


def test_it_is_started_again_with_the_same_key(running: Stack, folder: Path) -> None:
    before = token(folder)
    running.child("envoy").kill()
    running.wait("restarting", "envoy")
    running.wait("ready", "envoy")
    assert eventually(lambda: status(running, before) < 300)


def test_a_port_that_is_taken_is_refused(running: Stack, tmp_path: Path) -> None:
    port = port_of(running.urls["envoy"])
    code, said = refused(tmp_path / "stack", *EDGE_ONLY, "--envoy-port", str(port))
    assert (code, said) == (1, f"everbrook: Envoy can't listen on 127.0.0.1:{port}: the port is taken\n")


def test_two_parts_with_one_port_are_refused(tmp_path: Path) -> None:
    code, said = refused(tmp_path / "stack", *EDGE_ONLY, "--port", "4999", "--envoy-port", "4999")
    assert (code, "--port and --envoy-port are both 4999: each needs a port of its own" in said) == (2, True)


def test_it_says_how_to_get_a_token_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    with up(tmp_path / "stack", *EDGE_ONLY, parts=2) as stack:
        stack.wait()
        family = stack.family()
        stack.stop()
        said = stack.errors()
    assert f"a token for {stack.urls['envoy']}: everbrook token --sub NAME --keys {tmp_path}/stack/keys" in said
    assert gone(family, 1.0)


def test_it_is_envoy_that_encrypts_and_the_server_behind_it_does_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("edge")
    variables = acid(DS_TLS__CERT_PATH=str(pair.cert), DS_TLS__KEY_PATH=str(pair.key))
    with up(tmp_path / "stack", *EDGE_ONLY, parts=2, environ=variables) as stack:
        stack.wait()
        assert status(stack, token(tmp_path / "stack"), authority.client_context()) == 201
        assert (stack.urls["envoy"][:8], stack.urls["server"][:7]) == ("https://", "http://")


def test_a_server_that_was_to_be_encrypted_is_not_started_without_it() -> None:
    with pytest.raises(WrongParts, match="in a stack Envoy terminates TLS"):
        settings_for_envoy({"DS_TLS__CERT_PATH": "a", "DS_TLS__KEY_PATH": "b"}, {"server"})


def test_envoy_believes_the_issuer_of_the_settings() -> None:
    told = settings_for_envoy({"DS_AUTH__ISSUER": "i", "DS_AUTH__AUDIENCE": "a", "DS_AUTH__JWKS": "k.json"}, {"envoy"})
    assert told == {"issuer": "i", "audience": "a"}


def fake(folder: Path, version: str) -> Path:
    program = folder / "envoy"
    program.write_text(f"#!/bin/sh\necho 'envoy  version: abc/{version}/Clean/RELEASE/BoringSSL'\n")
    program.chmod(0o755)
    return program


def test_envoy_guards_the_header_that_the_server_believes() -> None:
    assert settings_for_envoy({"DS_AUTH__IDENTITY_HEADER": "X-User"}, {"envoy"}) == {"identity_header": "X-User"}
    assert settings_for_envoy({}, {"envoy"}) == {}


def test_the_envoy_of_the_machine_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake(tmp_path, "1.36.2")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_envoy() == str(program)


def test_one_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "1.20.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "/_bin/envoy" in find_envoy()


def test_one_that_is_named_is_taken_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(fake(tmp_path, "1.20.0")))
    with pytest.raises(ProgramMissing, match=r"Envoy 1.31 or newer is needed \(found: 1.20 at .*/envoy\)"):
        find_envoy()
