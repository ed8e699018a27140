"""The streams, the database and the tables that the other parts of the stack need.

Each is created if it is missing. One that exists is not changed, whoever created it.
"""

from importlib.resources import files
from urllib.parse import urlsplit, urlunsplit

from everbrook import Client
from everbrook.stack.errors import NotReady
from everbrook.stack.site import EVENTS_STREAM, ITEMS_STREAM

JSON = "application/json"


def make_streams(server_url: str) -> None:
    """Create the streams of both directions, so that a reader finds them even before the first message."""
    with Client(server_url) as client:
        for name in (ITEMS_STREAM, EVENTS_STREAM):
            client.stream(name).create(content_type=JSON)


def make_database(postgres_url: str) -> None:
    """Create the database of a URL. The connection for that goes to `postgres`, which every cluster has."""
    import psycopg
    from psycopg import sql

    url = urlsplit(postgres_url)
    name = url.path.removeprefix("/")
    with psycopg.connect(urlunsplit(url._replace(path="/postgres")), autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def make_tables(postgres_url: str) -> None:
    import psycopg

    schema = files("everbrook.stack").joinpath("schema.sql").read_bytes()
    try:
        with psycopg.connect(postgres_url) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute(schema)
    except psycopg.Error as error:
        raise NotReady(f"the tables of the stack could not be made: {str(error).strip()}") from error
