"""The gates of identity: who passes, who is asked for credentials, who is refused."""

import pytest

from everbrook.protocol.errors import Forbidden, TooManyRequests, Unauthorized, Unavailable
from everbrook.server.auth.policy import Authentication, Authorization
from everbrook.server.auth.scopes import Identity, Verb, parse_scopes
from everbrook.server.exchange import Request
from everbrook.server.location import StreamRoots
from everbrook.server.tuning import AUTH_TUNING
from everbrook.settings import ServerSettings

NOW_SECS = 1_000_000.0


class Told:
    """Says that whoever asks has the scopes of the header `x-scopes`; `error` is raised instead, if there is one."""

    def __init__(self, expires_at_secs: float | None = None) -> None:
        self.expires_at_secs = expires_at_secs
        self.error: Exception | None = None

    def identify(self, request: Request) -> Identity | None:
        if self.error:
            raise self.error
        scopes = request.headers.get(b"x-scopes")
        if scopes is None:
            return None
        return Identity("alice", "test", parse_scopes(scopes.decode()), self.expires_at_secs)


def _request(method: str, path: str, scopes: str | None = None, **headers: str) -> Request:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    if scopes is not None:
        named[b"x-scopes"] = scopes.encode()
    return Request(method.encode(), path.encode(), b"", named, b"")


def _admit(request: Request, told: Told | None = None, **options: bool) -> Authorization:
    identifier = told or Told()
    authorization = Authorization(
        identifier, StreamRoots(ServerSettings()), "/v1/stream/public", now=lambda: NOW_SECS, **options
    )
    Authentication(identifier).admit(request)
    authorization.admit(request)
    return authorization


def test_what_is_granted_passes() -> None:
    _admit(_request("POST", "/v1/stream/a/b", "append:/v1/stream/a"))


def test_nobody_in_particular_is_asked_for_credentials() -> None:
    with pytest.raises(Unauthorized) as refusal:
        _admit(_request("GET", "/v1/stream/a"))
    assert (b"WWW-Authenticate", b"Bearer") in refusal.value.headers


def test_who_is_known_is_refused_and_told_what_it_takes() -> None:
    with pytest.raises(Forbidden, match="'alice' may not do this: it needs the scope append:/v1/stream/a%20b"):
        _admit(_request("POST", "/v1/stream/a%20b", "read:/v1/stream"))


def test_everybody_may_read_what_is_public() -> None:
    request = _request("GET", "/v1/stream/public/a")
    _admit(request)
    assert not request.private


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_nobody_may_write_because_it_is_public(method: str) -> None:
    with pytest.raises(Unauthorized):
        _admit(_request(method, "/v1/stream/public/a"))


def test_what_is_granted_is_private() -> None:
    request = _request("GET", "/v1/stream/a", "read:/v1/stream")
    _admit(request)
    assert request.private


def test_wrong_credentials_are_refused_where_none_are_needed() -> None:
    told = Told()
    told.error = Unauthorized("wrong")
    with pytest.raises(Unauthorized, match="wrong"):
        _admit(_request("GET", "/v1/stream/public/a"), told)


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/healthz"),
        ("OPTIONS", "/v1/stream/a"),
        ("GET", "/v1/stream/__ds/jwks.json"),
        ("POST", "/v1/stream/__ds/subscriptions/s/callback"),
        ("POST", "/ds/acme/__ds/subscriptions/s/ack"),
        ("POST", "/v1/stream/__ds/subscriptions/s/release"),
    ],
)
def test_open_resources_are_not_even_asked_who_it_is(method: str, path: str) -> None:
    told = Told()
    told.error = AssertionError("somebody asked")
    _admit(_request(method, path), told)


def test_a_fork_needs_to_read_its_source() -> None:
    scopes = "create:/v1/stream/mine read:/v1/stream/shared"
    _admit(_request("PUT", "/v1/stream/mine/a", scopes, stream_forked_from="/v1/stream/shared/s"))
    with pytest.raises(Forbidden, match="read:/v1/stream/yours"):
        _admit(_request("PUT", "/v1/stream/mine/a", scopes, stream_forked_from="/v1/stream/yours"))


def test_what_is_public_may_be_forked() -> None:
    request = _request("PUT", "/v1/stream/a", "create:/v1/stream/a", stream_forked_from="/v1/stream/public/s")
    _admit(request)


def test_the_registry_is_not_a_stream_like_others() -> None:
    with pytest.raises(Forbidden):
        _admit(_request("GET", "/v1/stream/__registry__", "read:/v1/stream/__registry__"))
    _admit(_request("GET", "/v1/stream/__registry__", "read:/v1/stream"))


def test_a_listing_needs_something_to_tell() -> None:
    _admit(_request("GET", "/v1/stream/__ds/streams", "read:/v1/stream/a"))
    with pytest.raises(Forbidden):
        _admit(_request("GET", "/ds/acme/streams", "read:/v1/stream/a append:/ds/acme"))


def test_subscriptions_need_admin_of_their_root() -> None:
    _admit(_request("PUT", "/ds/acme/__ds/subscriptions/s", "admin:/ds/acme"))
    with pytest.raises(Forbidden, match="admin:/v1/stream,"):
        _admit(_request("POST", "/v1/stream/__ds/subscriptions/s/claim", "admin:/v1/stream/a"))


def test_metrics_may_be_public() -> None:
    _admit(_request("GET", "/metrics"), public_metrics=True)
    with pytest.raises(Unauthorized):
        _admit(_request("GET", "/metrics"))


def test_readable_is_what_is_public_and_what_is_granted_to_read() -> None:
    request = _request("GET", "/v1/stream/a", "read:/v1/stream/a append:/v1/stream/b admin:/ds/acme")
    rights = _admit(request)
    assert rights.readable(request) == (b"/v1/stream/public", b"/v1/stream/a", b"/ds/acme")


def test_what_was_decided_lasts_until_it_is_to_be_looked_at_again() -> None:
    request = _request("GET", "/v1/stream/a", "read:/v1/stream/a")
    assert 0 < _admit(request).lasts_secs(request) <= AUTH_TUNING.recheck_secs


def test_it_lasts_no_longer_than_its_token() -> None:
    request = _request("GET", "/v1/stream/a", "read:/v1/stream/a")
    assert _admit(request, Told(NOW_SECS + 1.0)).lasts_secs(request) == 1.0


def test_it_is_over_when_the_identity_is() -> None:
    told = Told()
    request = _request("GET", "/v1/stream/a", "read:/v1/stream/a")
    rights = _admit(request, told)
    told.error = Unauthorized("revoked")
    assert rights.renew(request) == 0


def test_it_is_over_when_the_grant_is() -> None:
    request = _request("GET", "/v1/stream/a", "read:/v1/stream/a")
    rights = _admit(request)
    request.headers[b"x-scopes"] = b"read:/v1/stream/b"
    assert rights.renew(request) == 0


def test_an_issuer_that_is_down_takes_nothing_back() -> None:
    told = Told()
    request = _request("GET", "/v1/stream/a", "read:/v1/stream/a")
    rights = _admit(request, told)
    told.error = Unavailable("the keys can't be had")
    assert rights.renew(request) > 0


def test_it_is_over_when_the_credential_is_not_looked_at() -> None:
    told = Told()
    request = _request("GET", "/v1/stream/a", "read:/v1/stream/a")
    rights = _admit(request, told)
    told.error = TooManyRequests("too many guesses", wait_secs=1)
    assert rights.renew(request) == 0


def test_a_refusal_names_the_root_of_everything() -> None:
    request = _request("GET", "/v1/stream/a", "read:/v1/stream/a")
    assert str(_admit(request).refusal(request, Verb.ADMIN, b"")).endswith("the scope admin:/, or a wider one")
