"""Secrets never reach a log: a session uses every kind of them, well and badly, and then the logs are searched.

Everything is logged that can be, in both formats; a request even meets a fault of the server, for its traceback.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook.cli.main import main
from tests.kit.server_process import ServerProcess, environment
from tests.kit.subscriber import Api, Hooks
from tests.kit.wire import Wire

PATH = "/v1/stream/a"
SCOPES = ("--scope", "admin:/")
# A server in which one path meets a fault.
PROGRAM = """
import sys
from everbrook.server import application
from everbrook.cli.main import main
find_route = application.find_route
def fail(path):
    if b"fault" in path:
        raise RuntimeError("a fault of ours")
    return find_route(path)
application.find_route = fail
sys.exit(main(sys.argv[1:]))
"""


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints last."""
    assert main(words) == 0
    return capsys.readouterr().out.strip().splitlines()[-1]


class Session:
    """One server, the secrets that were used with it, and everything that it wrote."""

    def __init__(self, folder: Path, log_format: str) -> None:
        self.folder = folder
        self.secrets: dict[str, str] = {}
        settings = {
            "DS_STORAGE__MODE": "memory",
            "DS_AUTH__JWKS": str(folder / "keys" / "jwks.json"),
            "DS_AUTH__ISSUER": "us",
            "DS_AUTH__AUDIENCE": "them",
            "DS_AUTH__API_KEYS_PATH": str(folder / "api.json"),
            "DS_AUTH__URL_KEYS_PATH": str(folder / "url.json"),
            "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true",
            "DS_LOG__LEVEL": "trace",
            "RUST_LOG": "trace",
            "DS_LOG__FORMAT": log_format,
            "DS_LOG__REQUESTS": "all",
            "DS_AUDIT__TO": "file",
            "DS_AUDIT__PATH": str(folder / "audit.log"),
        }
        with (folder / "stderr").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "serve", "--port", "0"],
                cwd=folder,
                env=environment(**settings),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def use(self, kind: str, secret: str) -> str:
        """Give a secret that no log may show."""
        self.secrets[kind] = secret
        return secret

    def stop(self) -> str:
        """Stop the server, and give all that it has written."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=20)
        return out + "".join((self.folder / name).read_text() for name in ("stderr", "audit.log"))


@pytest.fixture(params=["text", "json"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    for variable in [name for name in os.environ if name.startswith(("DS_", "EVERBROOK_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    assert main(["token", "--new-keys", "keys"]) == 0
    assert main(["apikey", "create", "--file", "api.json", *SCOPES]) == 0
    assert main(["sign", PATH, "--new-key", "--file", "url.json"]) == 0
    session = Session(tmp_path, request.param)
    yield session
    session.process.kill()
    session.process.wait()
    assert session.process.stdout is not None
    session.process.stdout.close()


def ask_with_every_secret(session: Session, wire: Wire, capsys: pytest.CaptureFixture[str]) -> None:
    token = session.use(
        "token", printed(capsys, "token", "--keys", "keys", "--issuer", "us", "--audience", "them", *SCOPES)
    )
    wire.create(PATH, authorization=f"Bearer {token}")
    expired = printed(capsys, "token", "--keys", "keys", "--issuer", "us", "--audience", "them", "--expired", *SCOPES)
    key = printed(capsys, "apikey", "create", "--file", "api.json", *SCOPES)
    session.use("expired token", expired)
    session.use("API key", key)
    for credentials in (token, expired, key, f"{key[:-4]}AAAA", f"{token[:-4]}AAAA", session.use("junk", "j" * 50)):
        wire.get(PATH, authorization=f"Bearer {credentials}")
    session.use("part of the API key", key[-20:])
    session.use("signature of the token", token.rpartition(".")[2][:40])
    wire.get(PATH, authorization=f"Basic {session.use('password', 'dXNlcjpodW50ZXIyaHVudGVy')}")
    url = printed(capsys, "sign", PATH, "--file", "url.json")
    session.use("signature", re.findall(r"signature=([^&]+)", url)[0])
    target = PATH + "?" + url.partition("?")[2]
    assert wire.get(target).status == 200
    assert wire.request("DELETE", target).status in {401, 403}
    wire.get(f"/ds/fault/x?token={session.use('token in a query', 'q' * 40)}", authorization=f"Bearer {token}")
    wire.get(f"http://user:{session.use('password in a URL', 'hunter-in-a-url')}@host{PATH}")


def take_webhooks(session: Session, wire: Wire) -> None:
    with Hooks() as hooks:
        hooks.respond = lambda _hook: (500, b"")
        headers = {"authorization": f"Bearer {session.secrets['token']}"}
        url = hooks.url + f"?key={session.use('secret of a webhook', 'w' * 40)}"
        api = Api(wire)
        answer = api.send("PUT", "s", {"type": "webhook", "webhook": {"url": url}, "streams": ["a"]}, **headers)
        assert answer.status == 201, answer
        wire.append(PATH, b"news", **headers)
        wake = hooks.next().wake
        session.use("callback token", wake["callback_token"])
        api.report("callback", "s", wake, token=wake["callback_token"][:-4] + "AAAA")
        assert api.report("callback", "s", wake).status == 200


def test_no_secret_is_in_any_log(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    with ServerProcess(session.process).connect() as wire:
        ask_with_every_secret(session, wire, capsys)
        take_webhooks(session, wire)
    written = session.stop()
    assert [kind for kind, secret in session.secrets.items() if secret in written] == []
    # The logs did tell of all this, or there would be nothing to find.
    assert all(words in written for words in ("a fault of ours", "Traceback", "401", PATH))
    for stored in ("api.json", "url.json"):
        for value in json.loads((session.folder / stored).read_text())["keys"][0].values():
            assert not isinstance(value, str) or len(value) < 40 or value not in written


def test_the_search_would_find_a_secret(session: Session) -> None:
    with ServerProcess(session.process).connect() as wire:
        wire.get(f"/v1/stream/{'s' * 40}", authorization="Bearer junk")
    assert "s" * 40 in session.stop()
