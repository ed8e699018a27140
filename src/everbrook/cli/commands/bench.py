"""``everbrook bench``: measures a running server under load, on streams of its own."""

import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from everbrook.cli.connection import given_token, open_client, server_options
from everbrook.cli.terminal.output import align, json_option, print_json, waiting

if TYPE_CHECKING:
    from everbrook import Client, Stream
    from everbrook.cli.commands.bench_load import Load, LoadTarget

CASES = ("append", "read", "follow")
TITLES = ("case", "connections", "per second", "MB/s", "p50 ms", "p99 ms")
NUMBERS = frozenset(range(1, len(TITLES)))
PAGE_BYTES = 64 * 1024
MIN_BYTES = 20


class Size(TypedDict):
    seconds: float
    connections: int
    message_bytes: int


@click.command()
@click.argument("cases", metavar="[append|read|follow]...", nargs=-1, type=click.Choice(CASES))
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    metavar="N",
    default=3.0,
    show_default=True,
    help="The duration of each case.",
)
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    metavar="N",
    help="How many connections append, read or follow.",
)
@click.option(
    "--bytes",
    "message_bytes",
    type=click.IntRange(min=MIN_BYTES),
    metavar="N",
    default=256,
    show_default=True,
    help="The size of a message.",
)
@json_option
@server_options
def bench(cases: tuple[str, ...], *, as_json: bool, **how: Unpack[Size]) -> None:
    """Put a running server under load: appends, catch-up reads of 64 KiB, and followers of one stream.

    One process makes the load, on streams of its own, which are deleted afterwards. The case `follow` counts
    deliveries, and measures their latency from the append on.
    """
    rows: list[dict[str, Any]] = []
    with open_client() as client:
        for case in cases or CASES:
            with waiting(f"{case}: {how['seconds']:g} s"):
                load = _run(client, case, how)
            rows.append(_figures(case, load, how))
            if as_json:
                print_json(rows[-1])
    if not as_json:
        click.echo("\n".join(align([TITLES, *map(_row, rows)], NUMBERS)))


def _run(client: "Client", case: str, how: Size) -> "Load":
    import asyncio

    from everbrook.cli.commands.bench_load import LoadFailed, LoadTarget

    place = LoadTarget(client.url, given_token())
    try:
        with _stream(client, case) as stream:
            return asyncio.run(_LOADS[case](place, stream, how))
    except LoadFailed as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _stream(client: "Client", case: str) -> "Iterator[Stream[Any]]":
    stream = client.stream(f"everbrook-bench/{os.getpid()}/{case}")
    stream.create(content_type="text/plain")
    try:
        yield stream
    finally:
        stream.delete(missing_ok=True)


async def _append(place: "LoadTarget", stream: "Stream[Any]", size: Size) -> "Load":
    from everbrook.cli.commands.bench_load import ask_for

    sent = size["message_bytes"]
    request = place.request("POST", stream.url, b"." * sent, Content_Type="text/plain")
    return await ask_for(
        place, lambda: request, connections=size["connections"], seconds=size["seconds"], sent_bytes=sent
    )


async def _read(place: "LoadTarget", stream: "Stream[Any]", size: Size) -> "Load":
    from everbrook.cli.commands.bench_load import ask_for

    stream.append(b"." * PAGE_BYTES)
    request = place.request("GET", f"{stream.url}?offset=-1")
    return await ask_for(place, lambda: request, connections=size["connections"], seconds=size["seconds"])


async def _follow(place: "LoadTarget", stream: "Stream[Any]", size: Size) -> "Load":
    from everbrook.cli.commands.bench_load import follow, stamped

    request = place.request("GET", f"{stream.url}?offset=-1&live=sse", Accept="text/event-stream")

    def make() -> bytes:
        return place.request("POST", stream.url, stamped(size["message_bytes"]), Content_Type="text/plain")

    return await follow(place, request, make, **size)


_LOADS: "dict[str, Callable[[LoadTarget, Stream[Any], Size], Coroutine[Any, Any, Load]]]" = {
    "append": _append,
    "read": _read,
    "follow": _follow,
}


def _figures(case: str, load: "Load", size: Size) -> dict[str, Any]:
    latencies_ms = sorted(latency / 1e6 for latency in load.latencies_ns) or [0.0]
    return {
        "case": case,
        **size,
        "per_second": round(load.count / size["seconds"], 1),
        "mb_per_second": round(load.bytes / size["seconds"] / 1e6, 2),
        "p50_ms": round(latencies_ms[len(latencies_ms) // 2], 3),
        "p99_ms": round(latencies_ms[len(latencies_ms) * 99 // 100], 3),
    }


def _row(figures: dict[str, Any]) -> tuple[str, ...]:
    return (
        figures["case"],
        str(figures["connections"]),
        f"{figures['per_second']:,.0f}",
        f"{figures['mb_per_second']:,.1f}",
        f"{figures['p50_ms']:.2f}",
        f"{figures['p99_ms']:.2f}",
    )
