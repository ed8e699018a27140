"""Under an ASGI server: it may put what a header says in the place of an address. Nobody is trusted for that."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from everbrook.server.asgi import create_app
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import configured

PATH = "/v1/stream/users/bob/x"
SCOPES = "read+create:/v1/stream/users/{sub}"

Serve = Callable[..., Mounted]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Run the application under uvicorn, with options of its own, for proxies at these addresses."""
    with ExitStack() as stack:

        def begin(trusted: str, **options: object) -> Mounted:
            streams = create_app(configured(auth__trusted_proxies=trusted, auth__default_scopes=SCOPES))
            return stack.enter_context(Mounted(streams, streams, **options))

        yield begin


def _status(server: Mounted, **headers: str) -> int:
    with server.connect() as wire:
        return wire.request("PUT", PATH, x_jwt_sub="bob", **headers).status


def test_a_proxy_is_known_by_its_connection(serve: Serve) -> None:
    assert _status(serve("127.0.0.1")) == 201


@pytest.mark.parametrize("allowed", ["127.0.0.1", "*"])
def test_nobody_is_a_proxy_because_a_header_says_so(serve: Serve, allowed: str) -> None:
    """Uvicorn believes the header of whoever is on the same machine, and tells us the address that it says."""
    server = serve("10.0.0.0/8", proxy_headers=True, forwarded_allow_ips=allowed)
    for said in ("10.0.0.1", "10.0.0.1:4711", "10.0.0.1, 127.0.0.1"):
        assert _status(server, x_forwarded_for=said) == 401


def test_the_proxy_itself_is_known_where_addresses_are_left_alone(serve: Serve) -> None:
    server = serve("127.0.0.1", proxy_headers=False)
    assert _status(server, x_forwarded_for="203.0.113.7") == 201
