"""Sources that are copied: each is filled with orders, in a server of its kind where it needs one."""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nats
import psycopg

from everbrook.stack.postgres import Postgres
from soak.resuming.programs import SUBJECT
from soak.server import EVERBROOK, HOST, free_port

Order = dict[str, object]


@contextmanager
def filled(kind: str, folder: Path, orders: Sequence[Order]) -> Iterator[str]:
    """Fill a source. Gives what a program opens it by."""
    folder.mkdir()
    if kind == "table":
        yield from _table(folder, orders)
    elif kind == "queue":
        yield from _queue(folder, orders)
    else:
        path = folder / "orders.jsonl"
        path.write_text("".join(json.dumps(order) + "\n" for order in orders))
        yield str(path)


def _table(folder: Path, orders: Sequence[Order]) -> Iterator[str]:
    cluster = Postgres(folder / "cluster", free_port(), settings={"fsync": "off"})
    try:
        cluster.start().wait_ready()
        with psycopg.connect(cluster.url()) as connection:
            connection.execute("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body jsonb)")
            rows = [(json.dumps(order),) for order in orders]
            connection.cursor().executemany("INSERT INTO orders (body) VALUES (%s)", rows)
        yield cluster.url()
    finally:
        cluster.stop()


def _queue(folder: Path, orders: Sequence[Order]) -> Iterator[str]:
    port = free_port()
    server = str(Path(EVERBROOK).with_name("nats-server"))
    command = [server, "--addr", HOST, "--port", str(port), "--jetstream", "--store_dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        try:
            asyncio.run(_publish(f"nats://{HOST}:{port}", orders))
            yield f"nats://{HOST}:{port}"
        finally:
            process.terminate()


async def _publish(url: str, orders: Sequence[Order]) -> None:
    connection = await nats.connect(url, max_reconnect_attempts=100, reconnect_time_wait=0.1, allow_reconnect=True)
    jetstream = connection.jetstream()
    await jetstream.add_stream(name=SUBJECT, subjects=[SUBJECT])
    for order in orders:
        await jetstream.publish(SUBJECT, json.dumps(order).encode())
    await connection.close()
