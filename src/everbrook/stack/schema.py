"""What a server and a Postgres must hold before the others may use them: two streams, a database, two tables.

Each is made if it is missing and left alone if it is there, whoever made it.
"""

from importlib.resources import files
from urllib.parse import urlsplit, urlunsplit

from everbrook import Client
from everbrook.stack.errors import NotReady
from everbrook.stack.site import EVENTS_STREAM, ITEMS_STREAM

JSON = "application/json"


def make_streams(server_url: str) -> None:
    """Make the streams of both directions, so that whoever subscribes before the first message finds them."""
    with Client(server_url) as client:
        for name in (ITEMS_STREAM, EVENTS_STREAM):
            client.stream(name).create(content_type=JSON)


def make_database(postgres_url: str) -> None:
    """Make the database that a URL names, from the one that every Postgres has."""
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
