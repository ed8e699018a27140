"""Errors of httpx2 in the client's words: what was never sent, what came too late, and what merely broke."""

from pathlib import Path

import httpx2
import pytest

from everbrook.client import ConnectionBroken, NotConnected, Request, ResponseLate
from everbrook.client.errors import InvalidAnswer, Unreachable
from everbrook.client.wire.httpx import tls_context, translated
from tests.kit.certificates import Authority

ASKED = Request("GET", "http://host/a?key=secret", {}, None, 1.0, 2.0)


def test_authorities_are_loaded_once_for_each_place_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    usual = tls_context()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    none = tls_context()
    assert (none.get_ca_certs(), none is usual, none is tls_context()) == ([], False, True)
    monkeypatch.delenv("SSL_CERT_DIR")
    assert tls_context() is usual


def test_a_file_of_authorities_that_was_replaced_is_loaded_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old, new = (Authority(tmp_path, name) for name in ("old", "new"))
    believed = tmp_path / "believed.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(believed))
    believed.write_bytes(old.ca.read_bytes())
    before = tls_context()
    assert tls_context() is before
    new.ca.replace(believed)
    (certificate,) = tls_context().get_ca_certs()
    assert certificate["subject"] == ((("commonName", "new"),),)


@pytest.mark.parametrize(
    "error, kind",
    [
        (httpx2.ConnectError("refused"), NotConnected),
        (httpx2.ConnectTimeout("refused"), NotConnected),
        (httpx2.PoolTimeout("refused"), NotConnected),
        (httpx2.ReadTimeout("refused"), ResponseLate),
        (httpx2.ReadError("refused"), ConnectionBroken),
        (httpx2.WriteTimeout("refused"), ConnectionBroken),
        (httpx2.RemoteProtocolError("refused"), ConnectionBroken),
        (httpx2.DecodingError("refused"), InvalidAnswer),
        (httpx2.InvalidURL("refused"), Unreachable),
        (httpx2.UnsupportedProtocol("refused"), Unreachable),
        (httpx2.LocalProtocolError("Illegal header value: refused"), ValueError),
    ],
    ids=repr,
)
def test_an_error_keeps_its_words_and_its_cause(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="refused") as raised, translated(ASKED):
        raise error
    assert (type(raised.value), raised.value.__cause__) == (kind, error)


def test_an_error_without_words_is_told_by_its_name() -> None:
    with pytest.raises(ResponseLate, match=r"^ReadTimeout$"), translated(ASKED):
        raise httpx2.ReadTimeout("")


def test_a_query_may_hold_secrets_and_is_not_told() -> None:
    with pytest.raises(Unreachable, match=r"^GET http://host/a: no$"), translated(ASKED):
        raise httpx2.InvalidURL("no")


def test_other_errors_are_left_as_they_are() -> None:
    with pytest.raises(KeyError), translated(ASKED):
        raise KeyError
