"""Renewal: another certificate without a restart; and files that can't be used, at the start and later."""

import logging
import ssl
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from everbrook.server.tls import Certificates, CertificateUnusable, make_context
from everbrook.server.tuning import ListenerTuning, ServerTuning
from everbrook.settings import TlsSettings
from tests.kit.certificates import Authority, Pair, connected, serial, shown
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Start
from tests.server.tls.test_encrypted import request


def looking(secs: float) -> ServerTuning:
    return ServerTuning(listener=ListenerTuning(certificate_secs=secs))


@pytest.fixture
def encrypted(start: Start, pair: Pair) -> RunningServer:
    """A server that looks at its certificate often."""
    return start(tuning=looking(0.02), tls__cert_path=str(pair.cert), tls__key_path=str(pair.key))


def reload(server: RunningServer) -> None:
    """Do what SIGHUP does."""
    server.call(lambda: [each() for each in server.application.on_reload])


def is_shown(server: RunningServer, context: ssl.SSLContext, pair: Pair) -> bool:
    return shown(server.address, context) == serial(pair)


def test_a_changed_certificate_is_used_by_itself(encrypted: RunningServer, pair: Pair, authority: Authority) -> None:
    renewed = authority.issue("server", file="renewed")
    renewed.put_at(pair)
    assert eventually(lambda: shown(encrypted.address, authority.client_context()) == serial(renewed))


def test_a_signal_renews_at_once(start: Start, pair: Pair, authority: Authority) -> None:
    server = start(tuning=looking(3600), tls__cert_path=str(pair.cert), tls__key_path=str(pair.key))
    renewed = authority.issue("server", file="renewed")
    renewed.put_at(pair)
    reload(server)
    assert shown(server.address, authority.client_context()) == serial(renewed)


# When changed files are loaded: every look is made by hand, and so is every moment between two of them.


class Loads:
    """Loads the files as a server does, and counts. `meanwhile` is called when they were read."""

    def __init__(self) -> None:
        self.count = 0
        self.serial = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, settings: TlsSettings) -> ssl.SSLContext:
        self.count += 1
        self.serial = x509.load_pem_x509_certificate(Path(settings.cert_path).read_bytes()).serial_number
        context = make_context(settings)
        self.meanwhile()
        return context


@pytest.fixture
def loads() -> Loads:
    return Loads()


@pytest.fixture
def certificates(pair: Pair, loads: Loads) -> Certificates:
    settings = TlsSettings(cert_path=str(pair.cert), key_path=str(pair.key))
    return Certificates(settings, look_secs=3600, load=loads)


def test_files_that_do_not_change_are_not_loaded_again(certificates: Certificates, loads: Loads) -> None:
    for _ in range(4):
        certificates.look()
    assert loads.count == 1


def test_changed_files_are_loaded_by_the_second_look_that_finds_them_so_and_once(
    certificates: Certificates, loads: Loads, pair: Pair, authority: Authority
) -> None:
    renewed = authority.issue("server", file="renewed")
    renewed.put_at(pair)
    loaded = []
    for _ in range(4):
        certificates.look()
        loaded.append(loads.count)
    assert loaded == [1, 2, 2, 2]
    assert loads.serial == serial(renewed)


def test_files_that_change_from_look_to_look_are_not_loaded_until_they_stay(
    certificates: Certificates, loads: Loads, pair: Pair, authority: Authority
) -> None:
    for number in range(3):
        authority.issue("server", file=f"renewed-{number}").put_at(pair)
        certificates.look()
    assert loads.count == 1
    certificates.look()
    assert (loads.count, loads.serial) == (2, serial(pair))


def test_a_pair_is_not_loaded_while_only_one_of_its_files_is_written(
    certificates: Certificates, loads: Loads, pair: Pair, authority: Authority
) -> None:
    renewed = authority.issue("server", file="renewed")
    renewed.cert.replace(pair.cert)
    certificates.look()
    renewed.key.replace(pair.key)
    certificates.look()
    assert loads.count == 1
    certificates.look()
    assert (loads.count, loads.serial) == (2, serial(pair))


@pytest.mark.parametrize("when", ["at the start", "by a look", "by a signal"])
def test_files_that_change_while_they_are_loaded_are_loaded_again(
    pair: Pair, loads: Loads, authority: Authority, when: str
) -> None:
    newest = authority.issue("server", file="newest")

    def replace_once() -> None:
        loads.meanwhile = lambda: None
        newest.put_at(pair)

    settings = TlsSettings(cert_path=str(pair.cert), key_path=str(pair.key))
    if when == "at the start":
        loads.meanwhile = replace_once
    certificates = Certificates(settings, look_secs=3600, load=loads)
    if when != "at the start":
        authority.issue("server", file="newer").put_at(pair)
        certificates.look()
        loads.meanwhile = replace_once
        (certificates.look if when == "by a look" else certificates.reload)()
    assert loads.serial != serial(newest)
    for _ in range(2):
        certificates.look()
    assert loads.serial == serial(newest)


# Files that can't be used


def test_a_pair_that_does_not_fit_keeps_the_one_before_and_is_said_once(
    encrypted: RunningServer, pair: Pair, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    before = serial(pair)
    pair.key.write_bytes(authority.issue("server", file="other").key.read_bytes())
    assert eventually(lambda: "the certificate was not changed" in caplog.text)
    for _look in range(5):
        assert shown(encrypted.address, authority.client_context()) == before
    assert caplog.text.count("is not that of the certificate") == 1
    caplog.clear()


def test_after_a_certificate_that_can_not_be_used_a_good_one_is(
    encrypted: RunningServer, pair: Pair, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    of_version_eight(pair)
    assert eventually(lambda: "the certificate was not changed" in caplog.text)
    renewed = authority.issue("server", file="renewed")
    renewed.put_at(pair)
    assert eventually(lambda: is_shown(encrypted, authority.client_context(), renewed))
    caplog.clear()


def test_open_connections_go_on_with_the_certificate_that_they_began_with(
    encrypted: RunningServer, pair: Pair, authority: Authority
) -> None:
    with connected(encrypted.address, authority.client_context()) as wire:
        authority.issue("server", file="renewed").put_at(pair)
        reload(encrypted)
        assert request(wire, "GET /healthz").read() == b"ok"


def test_no_request_fails_while_certificates_change(
    encrypted: RunningServer, pair: Pair, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    context, stopping, served = authority.client_context(), threading.Event(), []
    renewals = [authority.issue("server", file=f"renewed-{number}") for number in range(8)]

    def ask() -> None:
        while not stopping.is_set():
            with connected(encrypted.address, context) as wire:
                served.append(request(wire, "GET /healthz").read())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for renewed in renewals:
        renewed.put_at(pair)
        assert eventually(partial(is_shown, encrypted, context, renewed))
    stopping.set()
    for thread in threads:
        thread.join()
    assert len(served) > 20
    assert set(served) == {b"ok"}
    caplog.clear()  # a look between the writing of two files may have found a pair that does not fit


def of_version_eight(pair: Pair) -> Pair:
    """Write the certificate anew as of a version that there is not."""
    version_three, version_eight = bytes.fromhex("a003020102"), bytes.fromhex("a003020107")
    der = ssl.PEM_cert_to_DER_cert(pair.cert.read_text())
    pair.cert.write_text(ssl.DER_cert_to_PEM_cert(der.replace(version_three, version_eight, 1)))
    return pair


Spoil = Callable[[Authority, Pair], Pair]
UNUSABLE: list[tuple[str, Spoil, str]] = [
    ("a missing certificate", lambda _a, pair: Pair(Path("nowhere.crt"), pair.key), "can't be read: No such file"),
    ("a missing key", lambda _a, pair: Pair(pair.cert, Path("nowhere.key")), "can't be read: No such file"),
    ("a folder", lambda _a, pair: Pair(pair.cert.parent, pair.key), "can't be read: Is a directory"),
    ("no certificate", lambda _a, pair: Pair(pair.key, pair.key), "tls.cert_path must hold PEM certificates"),
    ("no key", lambda _a, pair: Pair(pair.cert, pair.cert), "tls.key_path must hold a PEM private key"),
    ("another key", lambda a, pair: Pair(pair.cert, a.issue("b").key), "is not that of the certificate in tls.cert_pa"),
    ("an odd version", lambda _a, pair: of_version_eight(pair), "tls.cert_path must hold PEM certificates"),
    ("a passphrase", lambda a, _p: a.issue("b", passphrase=b"secret"), "needs a passphrase: store it without one"),
]


@pytest.mark.parametrize("spoil, words", [case[1:] for case in UNUSABLE], ids=[case[0] for case in UNUSABLE])
def test_what_can_not_be_used_is_named(authority: Authority, pair: Pair, spoil: Spoil, words: str) -> None:
    cert, key = spoil(authority, pair)
    with pytest.raises(CertificateUnusable, match=words):
        make_context(TlsSettings(cert_path=str(cert), key_path=str(key)))


def test_a_certificate_that_has_expired_is_said(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    old = authority.issue("server", days=-1)
    with caplog.at_level(logging.WARNING):
        make_context(TlsSettings(cert_path=str(old.cert), key_path=str(old.key)))
    assert "has expired" in caplog.text
