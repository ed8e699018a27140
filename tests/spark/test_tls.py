"""TLS: whom the connector trusts."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from everbrook import Client
from everbrook.client.state_events import insert
from everbrook.spark.connection import connect, disconnect
from everbrook.spark.options import ServerOptions
from tests.spark.folds.compactors import Compactor
from tests.spark.folds.histories import bootstrapped, written
from tests.spark.readers import read_batch
from tests.spark.tls import TlsProxy, write_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(server: str, certificate: tuple[Path, Path]) -> Iterator[str]:
    """The URL of the server behind TLS."""
    with closing(TlsProxy(server, *certificate)) as proxy:
        yield proxy.url
        disconnect()


@pytest.mark.parametrize("streams", [1, 20], ids=["one", "many"])
def test_a_certificate_that_was_named_is_trusted(
    client: Client, secure: str, certificate: tuple[Path, Path], prefix: str, streams: int
) -> None:
    for number in range(streams):
        client.stream(f"{prefix}{number}").create(data=number)
    rows = read_batch({"url": secure, "streamPrefix": prefix, "caFile": str(certificate[0])})
    assert len(rows) == streams


def test_streams_are_folded_over_tls(client: Client, secure: str, certificate: tuple[Path, Path], prefix: str) -> None:
    streams = [written(client, f"{prefix}in/{number}", [insert("user", "1", number), 7]) for number in range(6)]
    options = {"streamPrefix": f"{prefix}in/", "invalid": "skip", "deadLetters": f"{prefix}letters"}
    outcomes = Compactor(secure, caFile=str(certificate[0]), **options).outcomes()
    assert [*outcomes.values()] == ["published"] * 6
    assert bootstrapped(streams[5]) == {"user": {"1": 5}}


def test_nothing_is_checked_where_the_user_says_so(client: Client, secure: str, prefix: str) -> None:
    client.stream(f"{prefix}a").create(data=1)
    assert len(read_batch({"url": secure, "stream": f"{prefix}a", "insecure": "true"})) == 1


def test_a_certificate_that_nobody_knows_is_not_trusted(secure: str) -> None:
    assert connect(ServerOptions(url=secure)).pipeline() is None


def test_a_certificate_of_the_client_is_shown(secure: str, certificate: tuple[Path, Path]) -> None:
    ca, key = map(str, certificate)
    options = ServerOptions(url=secure, ca_file=ca, cert_file=ca, key_file=key)
    pipeline = connect(options).pipeline()
    assert pipeline is not None
    pipeline.close()
