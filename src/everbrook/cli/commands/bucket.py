"""``everbrook bucket``: namespaces of streams."""

from typing import TYPE_CHECKING

import click

from everbrook.cli.connection import open_client, server_options
from everbrook.cli.terminal.output import align, format_time, json_option, print_json, show

if TYPE_CHECKING:
    from everbrook.client.models import BucketInfo

TITLES = ("created", "retention", "bucket")


@click.group()
def bucket() -> None:
    """Create, list, show and delete buckets."""


@bucket.command()
@click.argument("name", metavar="BUCKET")
@click.option("--retention", metavar="POLICY", help="The default retention policy of its streams.")
@click.option("--exist-ok", is_flag=True, help="Succeed if the bucket exists.")
@json_option
@server_options
def create(name: str, retention: str | None, *, exist_ok: bool, as_json: bool) -> None:
    """Create BUCKET, a name of 4 to 64 characters from a-z, 0-9, _ and -."""
    with open_client() as client:
        created = client.bucket(name).create(retention=retention, exist_ok=exist_ok)
    if as_json:
        print_json({"bucket": name, "created": created})
    else:
        click.echo(f"{'created' if created else 'found'} {name}")


@bucket.command()
@click.argument("prefix", default="")
@click.option("-l", "--long", "detailed", is_flag=True, help="Print a table with details.")
@json_option
@server_options
def ls(prefix: str, *, detailed: bool, as_json: bool) -> None:
    """List the buckets whose names begin with PREFIX, or all, one per line."""
    with open_client() as client:
        found = list(client.buckets(prefix))
    if as_json:
        for each in found:
            print_json(_facts(each))
    elif detailed:
        rows = [(format_time(each.created_at_ms), each.retention or "-", each.name) for each in found]
        click.echo("\n".join(align([TITLES, *rows])))
    else:
        click.echo("".join(f"{each.name}\n" for each in found), nl=False)


@bucket.command(name="show")
@click.argument("name", metavar="BUCKET")
@json_option
@server_options
def show_bucket(name: str, *, as_json: bool) -> None:
    """Print the metadata of BUCKET."""
    with open_client() as client:
        found = client.bucket(name).head()
    if as_json:
        print_json(_facts(found) | {"streams": found.streams})
        return
    facts = {"bucket": name, "created": format_time(found.created_at_ms), "retention": found.retention}
    show(facts | {"streams": found.streams}, as_json=False)


@bucket.command()
@click.argument("name", metavar="BUCKET")
@json_option
@server_options
def rm(name: str, *, as_json: bool) -> None:
    """Delete BUCKET, which must be empty."""
    with open_client() as client:
        client.bucket(name).delete()
    if as_json:
        print_json({"bucket": name, "deleted": True})


def _facts(found: "BucketInfo") -> dict[str, object]:
    return {"bucket": found.name, "created_at_ms": found.created_at_ms, "retention": found.retention}
