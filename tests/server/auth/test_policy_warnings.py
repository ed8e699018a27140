"""What is said at the start about a policy that is rarely meant so."""

import signal
from pathlib import Path

import pytest

from everbrook.server.auth.policy import policy_warnings
from everbrook.settings.sections.server import ClientCertificates
from tests.kit.keyring import Keyring
from tests.kit.server_process import serving
from tests.kit.server_thread import configured

EVERYWHERE = [("0.0.0.0", 4437)]  # noqa: S104 - that is what the warning is about


def _said(**settings: str) -> str:
    return "\n".join(policy_warnings(configured(**settings), EVERYWHERE))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "fe80::1%eth0", "2001:db8::1"])  # noqa: S104
def test_without_a_policy_every_address_but_loopback_is_warned_of(host: str) -> None:
    (said,) = policy_warnings(configured(), [("127.0.0.1", 1), (host, 1)])
    assert said.startswith(f"anybody who reaches {host} may read, write and delete everything: there is no policy.")


def test_on_loopback_nothing_is_said() -> None:
    assert not policy_warnings(configured(), [("127.0.0.1", 1), ("::1", 1), ("127.0.0.53", 1)])


def test_a_policy_is_enough() -> None:
    assert not _said(auth__api_keys_path="keys.json")


def test_certificates_that_all_clients_must_show_are_enough() -> None:
    tls = {"tls__cert_path": "c", "tls__key_path": "k", "tls__client_certificates": ClientCertificates.REQUIRED}
    assert not policy_warnings(configured(**tls), EVERYWHERE)
    assert policy_warnings(configured(**{**tls, "tls__client_certificates": ClientCertificates.OPTIONAL}), EVERYWHERE)


def test_a_proxy_that_anybody_is_is_warned_of() -> None:
    said = _said(auth__trusted_proxies="10.0.0.1,0.0.0.0/0", auth__default_scopes="read:/v1/stream/{sub}")
    assert "auth.trusted_proxies has 0.0.0.0/0" in said
    assert "X-JWT-Sub" in said


@pytest.mark.parametrize("prefix", ["/", "/v1", "/v1/stream", "/ds"])
def test_that_everything_is_public_is_said(prefix: str) -> None:
    assert "everybody may read every stream" in _said(auth__public_read=prefix, auth__api_keys_path="keys.json")


def test_that_everybody_may_write_everything_is_said() -> None:
    assert "let every identity write below '/'" in _said(auth__default_scopes="admin:/")
    assert not _said(auth__default_scopes="read+append+create:/v1/stream/{sub} read:/")


def test_that_nobody_can_write_is_said() -> None:
    assert "none may write" in _said(auth__public_read="/v1/stream/news")


def test_a_server_that_anybody_reaches_says_so_as_it_starts(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0") as server:  # noqa: S104
        code, _, said = server.stop(signal.SIGTERM).ended()
    assert code == 0
    assert "anybody who reaches 0.0.0.0 may read, write and delete everything" in said


def test_a_server_with_a_policy_asks_for_credentials(tmp_path: Path) -> None:
    keys = Keyring(tmp_path)
    with serving(tmp_path, "--host", "0.0.0.0", DS_AUTH__API_KEYS_PATH=str(keys.path)) as server:  # noqa: S104
        server.address = ("127.0.0.1", server.address[1])
        with server.connect() as wire:
            assert wire.get("/v1/stream/a").status == 401
            assert wire.get("/healthz").status == 200
        _, _, said = server.stop(signal.SIGTERM).ended()
    assert "anybody who reaches" not in said
