"""TLS: whom the connector trusts."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from everbrook import Client
from everbrook.client.state_events import insert
from everbrook.spark.connection import connect, disconnect
from everbrook.spark.options import ServerOptions
from tests.kit.certificates import Authority, Pair
from tests.spark.folds.compactors import Compactor
from tests.spark.folds.histories import bootstrapped, written
from tests.spark.readers import read_batch
from tests.spark.tls import TlsProxy


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    """The certificate of the proxy, and of the client that shows one."""
    return authority.issue("test")


@pytest.fixture
def secure(server: str, pair: Pair) -> Iterator[str]:
    """The URL of the server behind TLS."""
    with closing(TlsProxy(server, pair)) as proxy:
        yield proxy.url
        disconnect()


@pytest.mark.parametrize("streams", [1, 20], ids=["one", "many"])
def test_a_certificate_that_was_named_is_trusted(
    client: Client, secure: str, authority: Authority, prefix: str, streams: int
) -> None:
    for number in range(streams):
        client.stream(f"{prefix}{number}").create(data=number)
    rows = read_batch({"url": secure, "streamPrefix": prefix, "caFile": str(authority.ca)})
    assert len(rows) == streams


def test_streams_are_folded_over_tls(client: Client, secure: str, authority: Authority, prefix: str) -> None:
    streams = [written(client, f"{prefix}in/{number}", [insert("user", "1", number), 7]) for number in range(6)]
    options = {"streamPrefix": f"{prefix}in/", "invalid": "skip", "deadLetters": f"{prefix}letters"}
    outcomes = Compactor(secure, caFile=str(authority.ca), **options).outcomes()
    assert [*outcomes.values()] == ["published"] * 6
    assert bootstrapped(streams[5]) == {"user": {"1": 5}}


def test_nothing_is_checked_where_the_user_says_so(client: Client, secure: str, prefix: str) -> None:
    client.stream(f"{prefix}a").create(data=1)
    assert len(read_batch({"url": secure, "stream": f"{prefix}a", "insecure": "true"})) == 1


def test_a_certificate_that_nobody_knows_is_not_trusted(secure: str) -> None:
    assert connect(ServerOptions(url=secure)).pipeline() is None


def test_a_certificate_of_the_client_is_shown(server: str, authority: Authority, pair: Pair) -> None:
    with closing(TlsProxy(server, pair, clients=authority)) as proxy:
        nameless = ServerOptions(url=proxy.url, ca_file=str(authority.ca))
        assert connect(nameless).pipeline() is None
        pipeline = connect(replace(nameless, cert_file=str(pair.cert), key_file=str(pair.key))).pipeline()
        assert pipeline is not None
        pipeline.close()
        disconnect()
