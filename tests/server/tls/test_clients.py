"""Client certificates: whom the server knows by one, and whom it turns away."""

import json
import socket
import ssl

import pytest

from everbrook.server.tls import subject_of
from tests.kit.certificates import Authority, Pair, connected
from tests.kit.server_thread import RunningServer
from tests.kit.servers import Start
from tests.server.tls.test_encrypted import request

SCOPES = "read:/v1/stream/{sub}"


def demanding(start: Start, pair: Pair, authority: Authority, how: str) -> RunningServer:
    return start(
        tls__cert_path=str(pair.cert),
        tls__key_path=str(pair.key),
        tls__client_certificates=how,
        tls__client_ca_path=str(authority.ca),
        auth__default_scopes=SCOPES,
    )


def known_as(server: RunningServer, context: ssl.SSLContext) -> str | None:
    """Give the identity that the server refuses by name, or None if it knows none; raise if the handshake fails."""
    with connected(server.address, context) as wire:
        answer = request(wire, "DELETE /v1/stream/x")
        assert answer.status in {401, 403}
        refusal = json.loads(answer.read())["detail"]
    return None if answer.status == 401 else refusal.removeprefix("'").partition("' may not do this")[0]


@pytest.mark.parametrize("how", ["optional", "required"])
def test_a_client_is_known_by_the_name_in_its_certificate(
    start: Start, pair: Pair, authority: Authority, how: str
) -> None:
    server = demanding(start, pair, authority, how)
    assert known_as(server, authority.client_context(authority.issue("alice"))) == "alice"


def test_who_shows_none_is_nobody_where_it_is_optional(start: Start, pair: Pair, authority: Authority) -> None:
    assert known_as(demanding(start, pair, authority, "optional"), authority.client_context()) is None


def test_who_shows_none_is_turned_away_where_it_is_required(start: Start, pair: Pair, authority: Authority) -> None:
    server = demanding(start, pair, authority, "required")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        known_as(server, authority.client_context())


@pytest.mark.parametrize("how", ["optional", "required"])
def test_a_certificate_of_another_authority_is_turned_away(
    start: Start, pair: Pair, authority: Authority, how: str
) -> None:
    server = demanding(start, pair, authority, how)
    stranger = Authority(authority.folder, "stranger").issue("alice")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        known_as(server, authority.client_context(stranger))


def test_an_expired_certificate_is_turned_away(start: Start, pair: Pair, authority: Authority) -> None:
    server = demanding(start, pair, authority, "required")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        known_as(server, authority.client_context(authority.issue("alice", days=-1)))


def resumed(server: RunningServer, context: ssl.SSLContext, session: ssl.SSLSession | None) -> bool:
    plain = socket.create_connection(server.address, timeout=10)
    with context.wrap_socket(plain, session=session, server_hostname="127.0.0.1") as wire:
        assert request(wire, "GET /healthz").read() == b"ok"
        return bool(wire.session_reused)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_does_not_outlast_the_authority_of_its_certificate(
    start: Start, pair: Pair, authority: Authority, version: ssl.TLSVersion
) -> None:
    """A session that is resumed is believed without its certificate being looked at."""
    server, context = demanding(start, pair, authority, "required"), authority.client_context(authority.issue("alice"))
    context.minimum_version = context.maximum_version = version
    with connected(server.address, context) as first:
        assert request(first, "GET /healthz").read() == b"ok"
        session = first.session
    authority.ca.write_bytes(Authority(authority.folder, "other").ca.read_bytes())
    server.call(lambda: [each() for each in server.application.on_reload])
    with pytest.raises((ssl.SSLError, ConnectionError)):
        resumed(server, context, session)


def test_the_newest_version_resumes_no_session_at_all(start: Start, pair: Pair, authority: Authority) -> None:
    server, context = demanding(start, pair, authority, "required"), authority.client_context(authority.issue("alice"))
    with connected(server.address, context) as first:
        assert request(first, "GET /healthz").read() == b"ok"
        session = first.session
    assert session is None or not session.has_ticket
    assert not resumed(server, context, None)


def test_without_the_setting_nobody_is_asked(start: Start, pair: Pair, authority: Authority) -> None:
    server = start(tls__cert_path=str(pair.cert), tls__key_path=str(pair.key), auth__default_scopes=SCOPES)
    assert known_as(server, authority.client_context(authority.issue("alice"))) is None


@pytest.mark.parametrize("names", [(), ("alice", "bob"), ("",), ("alice\r\nX-JWT-Sub: bob",)])
def test_a_name_that_others_could_read_differently_is_none(names: tuple[str, ...]) -> None:
    assert subject_of({"subject": tuple((("commonName", name),) for name in names)}) is None
