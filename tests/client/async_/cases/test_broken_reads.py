"""Reads of what is there, over connections that break: nothing is lost, nothing comes twice."""

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import Unreachable
from everbrook.client.retry import Retry
from tests.kit.faults.kinds import AnswerLost, CutAfter, Delayed, Fault, NeverSent, Reply, Trickled, Twice
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

NUMBERS = list(range(30_000))


def fill(writer: Writer) -> None:
    """Write enough for several pages: each message is a number and much room."""
    for start in range(0, len(NUMBERS), 5_000):
        batch = ",".join(f'{{"n": {number}, "room": "{"x" * 100}"}}' for number in NUMBERS[start : start + 5_000])
        writer.append(f"[{batch}]".encode())


async def numbers_of(stream: AsyncStream[object], offset: str = "-1") -> list[object]:
    return [message["n"] async for message in stream.read(offset)]  # type: ignore[index]


@pytest.mark.parametrize(
    "faults",
    [
        [NeverSent(), AnswerLost(), CutAfter(100), CutAfter(500_000), Reply(503)],
        [CutAfter(size, rudely=True) for size in (0, 1, 2, 1000)],
        [Twice(), Delayed(0.05), Trickled(100_000)],
    ],
    ids=["mixed", "resets", "odd"],
)
async def test_every_page_comes_once(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], faults: list[Fault]
) -> None:
    fill(writer.create("application/json"))
    for fault in faults:
        proxy.arm(fault)
    assert await numbers_of(shaky) == NUMBERS


async def test_a_fault_in_every_page_is_as_good_as_none(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    fill(writer.create("application/json"))
    pages = [page.next_offset async for page in shaky.read().pages()]
    for offset in ["-1", *pages[:-1]]:
        proxy.arm(CutAfter(12_345), query=f"offset={offset}")
    assert len(pages) > 2
    assert await numbers_of(shaky) == NUMBERS


async def test_a_read_that_failed_goes_on_where_it_was(proxy: Proxy, writer: Writer) -> None:
    fill(writer.create("application/json"))
    got: list[object] = []
    async with AsyncClient(proxy.origin, retry=Retry(max_attempts=1)) as client:
        stream = client.stream(writer.name)
        reader = stream.read()
        pages = aiter(reader.pages())
        got += [message["n"] for message in (await anext(pages)).values]
        proxy.arm(NeverSent())
        with pytest.raises(Unreachable, match=writer.name):
            await anext(pages)
        assert 0 < len(got) < len(NUMBERS)
        got += await numbers_of(stream, reader.offset)
    assert got == NUMBERS


async def test_a_reader_that_is_left_within_a_page_tells_where(writer: Writer, stream: AsyncStream[object]) -> None:
    fill(writer.create("application/json"))
    got: list[object] = []
    offset = "-1"
    for stop in (1, 17, 4_000, 12_000):
        reader = stream.read(offset)
        async for message in reader:
            got.append(message["n"])  # type: ignore[index]
            if len(got) >= stop:
                break
        offset = reader.offset
    assert got + await numbers_of(stream, offset) == NUMBERS


async def test_a_compressed_page_that_breaks_is_read_again(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    fill(writer.create("application/json"))
    proxy.arm(Trickled(3_000))
    assert await numbers_of(shaky) == NUMBERS
    assert "gzip" in proxy.asked("GET")[0].headers["accept-encoding"]
