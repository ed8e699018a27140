"""TLS from outside: `everbrook serve` with the variables of other servers, and commands that speak to it."""

import signal
import subprocess
from pathlib import Path

import pytest

from everbrook.cli.main import main
from everbrook.settings.sections.server import ClientCertificates
from tests.kit.certificates import Authority, Pair, serial, shown
from tests.kit.server_process import EVERBROOK, environment, serving
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Start


def variables(pair: Pair) -> dict[str, str]:
    return {"DS_TLS__CERT_PATH": str(pair.cert), "DS_TLS__KEY_PATH": str(pair.key)}


def demands(authority: Authority) -> dict[str, str]:
    return {"DS_TLS__CLIENT_CERTIFICATES": "required", "DS_TLS__CLIENT_CA_PATH": str(authority.ca)}


def of_pair(pair: Pair) -> dict[str, object]:
    """The same settings for a server in this process."""
    return {"tls__cert_path": str(pair.cert), "tls__key_path": str(pair.key)}


def demanding(authority: Authority) -> dict[str, object]:
    required = ClientCertificates.REQUIRED
    return {"tls__client_certificates": required, "tls__client_ca_path": str(authority.ca)}


def url_of(server: RunningServer) -> str:
    return "https://{}:{}".format(*server.address)


def everbrook(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [EVERBROOK, *arguments]
    return subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, timeout=60, check=False
    )


def test_the_server_says_that_it_speaks_https(tmp_path: Path, pair: Pair) -> None:
    with serving(tmp_path, **variables(pair)) as server:
        assert server.banner[0].startswith("everbrook listens on https://{}:{};".format(*server.address))


@pytest.mark.parametrize("asks_clients", [False, True])
def test_the_doctor_finds_the_server_and_believes_the_authority(
    start: Start, pair: Pair, authority: Authority, *, asks_clients: bool
) -> None:
    server = start(**of_pair(pair) | (demanding(authority) if asks_clients else {}))
    settings = variables(pair) | (demands(authority) if asks_clients else {})
    url, shown = url_of(server), authority.issue("client")
    told = everbrook(
        *("--url", url, "--ca", str(authority.ca), "--client-cert", str(shown.cert)),
        *("--client-key", str(shown.key), "doctor"),
        **settings | {"DS_SERVER__PORT": str(server.address[1])},
    )
    assert f"ok    port: a server is listening at {url}\n" in told.stdout
    assert f"ok    server: {url} responds" in told.stdout


def test_the_doctor_asks_the_server_of_its_settings(encrypted: RunningServer, pair: Pair, authority: Authority) -> None:
    settings = variables(pair) | {"DS_SERVER__PORT": str(encrypted.address[1])}
    told = everbrook("--ca", str(authority.ca), "doctor", **settings)
    assert f"ok    server: {url_of(encrypted)} responds" in told.stdout


def test_a_hang_up_renews_the_certificate(tmp_path: Path, pair: Pair, authority: Authority) -> None:
    with serving(tmp_path, **variables(pair)) as server:
        renewed = authority.issue("server", file="renewed")
        renewed.put_at(pair)
        server.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: shown(server.address, authority.client_context()) == serial(renewed))


def test_a_command_shows_a_certificate_and_believes_an_authority(
    start: Start, pair: Pair, authority: Authority
) -> None:
    server, alice = start(**of_pair(pair) | demanding(authority)), authority.issue("alice", file="alice")
    shown = ("--client-cert", str(alice.cert), "--client-key", str(alice.key))
    ran = everbrook("create", "x", "--url", url_of(server), "--ca", str(authority.ca), *shown)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_command_does_not_believe_an_authority_that_nobody_named(encrypted: RunningServer) -> None:
    ran = everbrook("create", "x", "--url", url_of(encrypted))
    assert ran.returncode != 0
    assert "certificate" in ran.stderr.lower()


def test_a_file_that_is_no_authority_is_named() -> None:
    ran = everbrook("create", "x", "--ca", "nowhere.pem")
    assert (ran.returncode, "--ca must hold PEM certificates, got nowhere.pem" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"DS_TLS__CERT_PATH": "a"}, "tls.cert_path needs tls.key_path"),
        ({"DS_TLS__KEY_PATH": "a"}, "tls.key_path needs tls.cert_path"),
        ({"DS_TLS__CLIENT_CERTIFICATES": "required"}, "tls.client_certificates need tls.cert_path"),
        ({"DS_TLS__CLIENT_CA_PATH": "a"}, "tls.client_ca_path has no effect"),
        ({"DS_TLS__MIN_VERSION": "1.1"}, "tls.min_version must be 1.2 or 1.3, got '1.1'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    settings: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert main(["serve", "--port", "0"]) != 0
    assert words in capsys.readouterr().err


def test_a_server_does_not_start_without_its_certificate(pair: Pair) -> None:
    pair.cert.unlink()
    ran = everbrook("serve", "--port", "0", **variables(pair))
    assert ran.returncode != 0
    assert f"{pair.cert}, which TLS needs, can't be read" in ran.stderr
