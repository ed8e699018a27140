"""TLS from outside: `everbrook serve` with the variables of other servers, and commands that speak to it."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.certificates import Authority, Pair, serial, shown
from tests.server.process import EVERBROOK, environment, serving
from tests.server.running import eventually


def variables(pair: Pair) -> dict[str, str]:
    return {"DS_TLS__CERT_PATH": str(pair.cert), "DS_TLS__KEY_PATH": str(pair.key)}


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
    tmp_path: Path, pair: Pair, authority: Authority, *, asks_clients: bool
) -> None:
    settings = variables(pair) | (
        {"DS_TLS__CLIENT_CERTIFICATES": "required", "DS_TLS__CLIENT_CA_PATH": str(authority.ca)} if asks_clients else {}
    )
    with serving(tmp_path, **settings) as server:
        url, shown = "https://{}:{}".format(*server.address), authority.issue("client")
        told = everbrook(
            *("--url", url, "--ca", str(authority.ca), "--client-cert", str(shown.cert)),
            *("--client-key", str(shown.key), "doctor"),
            **settings | {"DS_SERVER__PORT": str(server.address[1])},
        )
    assert f"ok    port: a server is listening at {url}\n" in told.stdout
    assert f"ok    server: {url} answers" in told.stdout


def test_the_doctor_asks_the_server_of_its_settings(tmp_path: Path, pair: Pair, authority: Authority) -> None:
    with serving(tmp_path, **variables(pair)) as server:
        settings = variables(pair) | {"DS_SERVER__PORT": str(server.address[1])}
        told = everbrook("--ca", str(authority.ca), "doctor", **settings)
    assert "ok    server: https://{}:{} answers".format(*server.address) in told.stdout


def test_a_hang_up_renews_the_certificate(tmp_path: Path, pair: Pair, authority: Authority) -> None:
    with serving(tmp_path, **variables(pair)) as server:
        renewed = authority.issue("server", file="renewed")
        renewed.put_at(pair)
        server.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: shown(server.address, authority.client_context()) == serial(renewed))


def test_a_command_shows_a_certificate_and_believes_an_authority(
    tmp_path: Path, pair: Pair, authority: Authority
) -> None:
    demands = {"DS_TLS__CLIENT_CERTIFICATES": "required", "DS_TLS__CLIENT_CA_PATH": str(authority.ca)}
    alice = authority.issue("alice", file="alice")
    with serving(tmp_path, **variables(pair), **demands) as server:
        url = "https://{}:{}".format(*server.address)
        shown = ("--client-cert", str(alice.cert), "--client-key", str(alice.key))
        ran = everbrook("create", "x", "--url", url, "--ca", str(authority.ca), *shown)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_command_does_not_believe_an_authority_that_nobody_named(tmp_path: Path, pair: Pair) -> None:
    with serving(tmp_path, **variables(pair)) as server:
        ran = everbrook("create", "x", "--url", "https://{}:{}".format(*server.address))
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
        ({"DS_TLS__CLIENT_CA_PATH": "a"}, "tls.client_ca_path means nothing"),
        ({"DS_TLS__MIN_VERSION": "1.1"}, "tls.min_version must be 1.2 or 1.3, got '1.1'"),
        ({"DS_TLS__CERT_PATH": "a.crt", "DS_TLS__KEY_PATH": "a.key"}, "a.crt, which TLS needs, can't be read"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, str], words: str) -> None:
    ran = everbrook("serve", "--port", "0", **settings)
    assert ran.returncode != 0
    assert words in ran.stderr
