"""What the tests of sinks do around batches: append what a batch reads, and have its end forgotten."""

from pathlib import Path

from everbrook import Client


def append(client: Client, stream: str, *messages: object) -> None:
    client.stream(stream).create()
    client.stream(stream).extend(messages)


def forget_last_batch(checkpoint: Path) -> None:
    """Make it as if the driver had died before Spark noted that the last batch was done."""
    commits = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    max(commits, key=lambda path: int(path.name)).unlink()
