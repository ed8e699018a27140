"""Each client takes what belongs to its side."""

import httpx2
import pytest

from everbrook import AsyncClient, Client


async def token() -> str:
    return "secret"


def test_an_asynchronous_token_is_not_for_the_sync_client() -> None:
    with Client("http://127.0.0.1:9", token=token) as client, pytest.raises(TypeError, match="goes with AsyncClient"):  # type: ignore[arg-type]
        client.stream("any").head()


def test_each_client_takes_connections_of_its_own_side() -> None:
    with httpx2.Client() as http, pytest.raises(TypeError, match=r"must be an httpx2\.AsyncClient, got Client"):
        AsyncClient(http=http)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be an httpx2\.Client, got AsyncClient"):
        Client(http=httpx2.AsyncClient())  # type: ignore[arg-type]
