"""Everbrook's client as an adapter of the upstream client suite: `conformance_adapter.py --sync` or `--async`.

The suite's runner writes commands as lines of JSON and reads one line for each. The adapter uses the public client and
nothing else. The statuses of reads, and the headers and parameters it reports, are those that went over the wire; where
the suite only wants to know that something succeeded, it calls that 200.
"""

import asyncio
import base64
import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from everbrook import AsyncProducer, AsyncReader, AsyncStream, Page, Producer, ProducerReused, Reader, Retry, Stream
from tests.conformance.client.faces import Blocking, Exchange, Face, Looping
from tests.conformance.client.refused import error_result
from tests.conformance.client.values import Command, Result, changing, chunks_of, retry_options

Handler = Callable[[Command], Awaitable[Result | None]]

FEATURES = ["batching", "sse", "longPoll", "auto", "streaming", "dynamicHeaders"]
FEATURES += ["retryOptions", "batchItems", "strictZeroValidation"]
READ_TIMEOUT_MS = 5000
MAX_CHUNKS = 100


class Adapter:
    """What the adapter remembers between commands: content types, producers, and headers that change."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._url = ""
        self._content_types: dict[str, str] = {}
        self._producers: dict[tuple[str, str, int], Producer[Any] | AsyncProducer[Any]] = {}
        self._headers: dict[str, Callable[[], str]] = {}
        self._params: dict[str, Callable[[], str]] = {}

    async def answer(self, command: Command) -> Result:
        """Do what a command says. Whatever goes wrong is an answer too."""
        kind = command["type"]
        self._face.wire.clear()
        try:
            done = await self._handler(kind)(command) or {}
        except Exception as error:  # noqa: BLE001 - the runner is told, and decides
            result = error_result(kind, error)
            if result["errorCode"] == "INTERNAL_ERROR":
                traceback.print_exc()
            return result
        return {"type": kind, "success": True, "status": 200} | done

    def _handler(self, kind: str) -> Handler:
        handler: Handler | None = getattr(self, f"do_{kind.replace('-', '_')}", None)
        if handler is None:
            raise NotImplementedError(f"this adapter knows no command {kind!r}")
        return handler

    async def do_init(self, command: Command) -> Result:
        self._url = command["serverUrl"]
        told = {"clientName": self._face.name, "clientVersion": version("everbrook")}
        return told | {"features": dict.fromkeys(FEATURES, True)}

    async def do_create(self, command: Command) -> Result:
        expires_at, data = command.get("expiresAt"), command.get("data")
        head = await self._face.call(
            self._stream(command).create,
            content_type=command.get("contentType", "application/octet-stream"),
            ttl_secs=command.get("ttlSeconds"),
            expires_at=expires_at and datetime.fromisoformat(expires_at),
            closed=command.get("closed", False),
            **({"data": data.encode()} if data else {}),
        )
        self._content_types[command["path"]] = head.content_type
        return {"status": 201 if head.created else 200, "offset": head.offset}

    async def do_connect(self, command: Command) -> Result:
        return await self.do_head(command)

    async def do_head(self, command: Command) -> Result:
        head = await self._face.call(self._stream(command).head)
        self._content_types[command["path"]] = head.content_type
        return {"offset": head.offset, "contentType": head.content_type, "streamClosed": head.closed}

    async def do_append(self, command: Command) -> Result:
        data = base64.b64decode(command["data"]) if command.get("binary") else command["data"].encode()
        seq = command.get("seq")
        offset = await self._face.call(self._stream(command).append, data, seq=None if seq is None else str(seq))
        return {"offset": offset} | self._sent(command)

    async def do_delete(self, command: Command) -> None:
        await self._face.call(self._stream(command).delete)
        self._content_types.pop(command["path"], None)

    async def do_close(self, command: Command) -> Result:
        data = [command["data"].encode()] if command.get("data") else []
        return {"finalOffset": await self._face.call(self._stream(command).close, *data)}

    async def do_read(self, command: Command) -> Result:
        live, offset = command.get("live", False), command.get("offset", "-1")
        stream = self._stream(command)
        reader = stream.follow(offset, mode="auto" if live is True else live) if live else stream.read(offset)
        pages: list[Page] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(command.get("timeoutMs", READ_TIMEOUT_MS) / 1000 if live else None):
                await self._collect(reader, command, pages)
        await self._face.call(reader.close)
        return self._told(command, pages) | self._sent(command)

    async def _collect(self, reader: Reader[Any] | AsyncReader[Any], command: Command, pages: list[Page]) -> None:
        async with aclosing(self._face.pages(reader)) as found:
            async for page in found:
                pages.append(page)
                enough = len(chunks_of(pages)) >= command.get("maxChunks", MAX_CHUNKS)
                if enough or (command.get("waitForUpToDate") and page.up_to_date):
                    return

    def _told(self, command: Command, pages: list[Page]) -> Result:
        last = pages[-1] if pages else None
        statuses = [exchange.status for exchange in self._exchanges(command) if exchange.status is not None]
        return {
            "status": statuses[-1] if statuses else 200,
            "chunks": chunks_of(pages),
            "offset": last.next_offset if last else command.get("offset", "-1"),
            "upToDate": bool(last and last.up_to_date),
            "streamClosed": bool(last and last.closed),
        }

    async def do_idempotent_append(self, command: Command) -> None:
        producer = self._producer(command)
        await self._face.call(producer.append, command["data"].encode())
        await self._face.call(producer.flush)

    async def do_idempotent_append_batch(self, command: Command) -> None:
        in_flight = command.get("maxInFlight") or 1
        producer = self._stream(command).producer(
            command["producerId"],
            epoch=command["epoch"],
            auto_claim=command["autoClaim"],
            max_in_flight=in_flight,
            linger_secs=1.0,
            max_batch_items=1 if in_flight > 1 else 10_000,  # the suite wants to see several under way at once
        )
        # One test sends a batch again as a new producer. The client reports that; the suite expects success, because
        # nothing is written twice.
        with suppress(ProducerReused):
            try:
                for item in command["items"]:
                    await self._face.call(producer.append, item.encode())
            finally:
                await self._face.call(producer.detach)

    async def do_idempotent_close(self, command: Command) -> Result:
        data = [command["data"].encode()] if command.get("data") else []
        return {"finalOffset": await self._face.call(self._producer(command).close, *data)}

    async def do_idempotent_detach(self, command: Command) -> None:
        producer = self._producer(command)
        del self._producers[command["path"], command["producerId"], command["epoch"]]
        await self._face.call(producer.detach)

    async def do_set_dynamic_header(self, command: Command) -> None:
        self._headers[command["name"]] = changing(command)

    async def do_set_dynamic_param(self, command: Command) -> None:
        self._params[command["name"]] = changing(command)

    async def do_clear_dynamic(self, _: Command) -> None:
        self._headers.clear()
        self._params.clear()

    async def do_validate(self, command: Command) -> None:
        target = command["target"]
        if target["target"] == "retry-options":
            Retry(**retry_options(target))
            return
        names = {"epoch": "epoch", "maxBatchBytes": "max_batch_bytes", "maxBatchItems": "max_batch_items"}
        options = {ours: target[theirs] for theirs, ours in names.items() if theirs in target}
        producer = self._stream({"path": "/validated"}).producer(target.get("producerId"), **options)
        await self._face.call(producer.detach)

    async def do_shutdown(self, _: Command) -> None:
        for producer in self._producers.values():
            with suppress(Exception):
                await self._face.call(producer.detach)
        await self._face.close()

    def _stream(self, command: Command) -> Stream[Any] | AsyncStream[Any]:
        headers = self._headers | command.get("headers", {})
        client = self._face.client(self._url, headers=headers, params=dict(self._params))
        content_type = self._content_types.get(command["path"])
        stream: Stream[Any] | AsyncStream[Any] = client.stream(self._url + command["path"], content_type=content_type)
        return stream

    def _producer(self, command: Command) -> Producer[Any] | AsyncProducer[Any]:
        key = command["path"], command["producerId"], command["epoch"]
        if key not in self._producers:
            self._producers[key] = self._stream(command).producer(
                command["producerId"], epoch=command["epoch"], auto_claim=command.get("autoClaim", False)
            )
        return self._producers[key]

    def _exchanges(self, command: Command) -> list[Exchange]:
        """What went over the wire for a stream; the thread of a reader that was closed may still ask for another."""
        url = self._url + command["path"]
        return [found for found in self._face.wire.exchanges if str(found.request.url).partition("?")[0] == url]

    def _sent(self, command: Command) -> Result:
        """The changing headers and parameters, as the last request had them."""
        request = self._exchanges(command)[-1].request
        headers = {name: request.headers[name] for name in self._headers}
        params = {name: request.url.params[name] for name in self._params}
        return ({"headersSent": headers} if headers else {}) | ({"paramsSent": params} if params else {})


async def main(face: Face) -> None:
    """Answer commands until there are no more."""
    adapter = Adapter(face)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        sys.stdout.write(json.dumps(await adapter.answer(command)) + "\n")
        sys.stdout.flush()
        if command["type"] == "shutdown":
            break


if __name__ == "__main__":
    faces: dict[str, Callable[[], Face]] = {"--sync": Blocking, "--async": Looping}
    if sys.argv[1:] not in ([name] for name in faces):
        sys.exit(f"usage: conformance_adapter.py --sync|--async, got {sys.argv[1:]}")
    asyncio.run(main(faces[sys.argv[1]]()))
    os._exit(0)  # a thread of a reader may still wait for its last answer
