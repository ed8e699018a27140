"""The initial copy as messages: resets of streams that an earlier capture wrote, then an insert for each row."""

from collections.abc import Iterator

from everbrook.spark.capture.beginning import wanted
from everbrook.spark.capture.options import CaptureOptions
from everbrook.spark.capture.routing import Streams
from everbrook.spark.capture.rows import Headers, Row, RowWriter
from everbrook.spark.capture.spool import RESETS, Manifest, Slice, Spool


def spooled_rows(options: CaptureOptions, manifest: Manifest, slices: list[Slice]) -> Iterator[Row]:
    """Read some of the copied rows. Their offsets sort before those of all changes."""
    headers, types = Headers(manifest.lsn), manifest.types()
    records = {record.name: record for record in wanted(options, manifest)}
    streams, spool = Streams(options.routing, options.location), Spool(options.location, manifest.parts)
    for each in slices:
        if each.part.file == RESETS:
            for at, line in spool.lines(each):
                yield Row(line[:-1].decode(), _offset(at), headers.reset, None, None, "reset", None)
            continue
        record = records.get(each.part.table)
        if record is None:
            continue
        writer = RowWriter(record.name, record.shape, types)
        place, stream = streams.place(record.shape, record.name), options.routing.of_table(record.name)
        for at, values in spool.rows(each):
            key = writer.key(values)
            name = stream if stream is not None else streams.of_value(values[place or 0])
            message = writer.set(key, writer.value(values), headers.insert)
            yield Row(name, _offset(at), message, None, record.name, "insert", key)


def _offset(at: int) -> str:
    return f"{0:016x}-{at:016d}"
