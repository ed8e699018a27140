"""What the tests of TLS share: an authority, and a server with a certificate of it."""

from pathlib import Path

import pytest

from tests.kit.certificates import Authority, Pair
from tests.kit.server_thread import RunningServer
from tests.kit.servers import Start


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    """The certificate that a server has."""
    return authority.issue("server", file="server")


@pytest.fixture
def encrypted(start: Start, pair: Pair) -> RunningServer:
    """A server that speaks https, and nothing else."""
    return start(tls__cert_path=str(pair.cert), tls__key_path=str(pair.key))
