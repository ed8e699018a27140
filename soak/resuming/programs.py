"""Programs that copy a source into a stream, as users write them.

`python -m soak.resuming.programs KIND SERVER SOURCE` runs one. The program `careless` is wrong: it keeps its position
in a file beside the source, and writes that after its message.
"""

import asyncio
import json
import sys
from pathlib import Path

import nats
import psycopg
from nats.js.api import ConsumerConfig, DeliverPolicy

from everbrook import AsyncClient, Client

STREAM = "copied"
NAME = "copy"
SUBJECT = "orders"
BATCH = 20
POSITION_SUFFIX = ".position"


def copy_file(server: str, path: str) -> None:
    """Copy lines. The position is how many bytes they end at."""
    with (
        Client(server) as client,
        client.stream(STREAM).producer(NAME, resume=True, max_batch_items=BATCH) as producer,
        Path(path).open("rb") as lines,
    ):
        lines.seek(int(producer.position or 0))
        for line in lines:
            producer.append(json.loads(line), position=str(lines.tell()))


def copy_table(server: str, database: str) -> None:
    """Copy rows. The position is the key of the last one."""
    query = "SELECT id, body FROM orders WHERE id > %s ORDER BY id"
    with (
        Client(server) as client,
        client.stream(STREAM).producer(NAME, resume=True, max_batch_items=BATCH) as producer,
        psycopg.connect(database) as connection,
    ):
        for key, body in connection.execute(query, [int(producer.position or 0)]):
            producer.append(body, position=str(key))


async def copy_queue(server: str, queue: str) -> None:
    """Copy messages, up to those that are there now. The position is the sequence number of the last one."""
    connection = await nats.connect(queue)
    jetstream = connection.jetstream()
    async with (
        AsyncClient(server) as client,
        client.stream(STREAM).producer(NAME, resume=True, max_batch_items=BATCH) as producer,
    ):
        done, last = int(producer.position or 0), (await jetstream.stream_info(SUBJECT)).state.last_seq
        start = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=done + 1)
        messages = await jetstream.subscribe(SUBJECT, ordered_consumer=True, config=start)
        while done < last:
            message = await messages.next_msg(timeout=30)
            done = message.metadata.sequence.stream
            await producer.append(json.loads(message.data), position=str(done))
    await connection.close()


def copy_carelessly(server: str, path: str) -> None:
    """Copy lines, and write down beside them how far that is."""
    beside = Path(path).with_suffix(POSITION_SUFFIX)
    with (
        Client(server) as client,
        client.stream(STREAM).producer(NAME, auto_claim=True, max_batch_items=BATCH) as producer,
        Path(path).open("rb") as lines,
    ):
        lines.seek(int(beside.read_text()) if beside.exists() else 0)
        for line in lines:
            producer.append(json.loads(line))
            producer.flush()
            written = beside.with_suffix(".new")
            written.write_text(str(lines.tell()))
            written.replace(beside)


def main(kind: str, server: str, source: str) -> None:
    """Copy a source."""
    if kind == "queue":
        asyncio.run(copy_queue(server, source))
    else:
        {"file": copy_file, "table": copy_table, "careless": copy_carelessly}[kind](server, source)


if __name__ == "__main__":
    main(*sys.argv[1:])
