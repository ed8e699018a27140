"""``everbrook token``: tokens for tests, signed by a key of this machine instead of the key of an issuer.

It prints the token and nothing else, so that ``$(…)`` can be used.
"""

import os
import secrets
import time
from pathlib import Path

import click

from everbrook.cli.terminal.flags import layer_flags, parse_duration
from everbrook.cli.terminal.output import json_option, note, print_json
from everbrook.settings import AuthSettings, load_settings

TEST_NAME = "everbrook-test"
LIFETIME = "1h"


@click.command()
@click.option(
    "--keys",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of jwks.json and private.pem, made on first use.  [default: keys in the folder of the stack]",
)
@click.option(
    "--new-keys",
    "new_folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Make a new key pair in this folder instead of a token.",
)
@click.option(
    "--sub", default="tester", show_default=True, metavar="NAME", help="The subject of the token (claim sub)."
)
@click.option(
    "--issuer", metavar="NAME", help=f"The issuer of the token (claim iss).  [default: auth.issuer, or {TEST_NAME}]"
)
@click.option(
    "--audience",
    metavar="NAME",
    help=f"The audience of the token (claim aud).  [default: auth.audience, or {TEST_NAME}]",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="A right of the token, such as read:/v1/stream/chats; repeatable.",
)
@click.option(
    "--for",
    "lifetime",
    type=parse_duration,
    default=LIFETIME,
    metavar="DURATION",
    help="How long the token is valid.  [1h]",
)
@click.option("--expired", is_flag=True, help="Make an expired token.")
@click.option("--kid", metavar="NAME", help="The id of the key that the token names, or of a new key.")
@click.option("--algorithm", metavar="NAME", help="The signature algorithm of a new key.  [default: RS256]")
@layer_flags
@json_option
def token(  # noqa: PLR0913 - an option each
    folder: Path | None,
    new_folder: Path | None,
    sub: str,
    issuer: str | None,
    audience: str | None,
    scopes: tuple[str, ...],
    lifetime: int,
    *,
    expired: bool,
    kid: str | None,
    algorithm: str | None,
    profile: str | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Print a token, signed by a test key, for a server or a proxy that has the jwks.json of this key.

    A server accepts such a token only if auth.jwks is this file.
    """
    if new_folder is not None:
        _make_keys(new_folder, algorithm, kid, as_json=as_json)
        return
    if algorithm is not None:
        raise click.UsageError("--algorithm is only for --new-keys: an existing key keeps its algorithm")
    auth = load_settings(profile=profile, config_file=config_file).auth
    claims = _claims(auth, sub, issuer, audience, scopes)
    end = int(time.time()) + (-lifetime if expired else lifetime)
    claims |= {"iat": end - lifetime, "exp": end}
    minted = _mint(folder or _default_folder(), claims, kid)
    if as_json:
        print_json({"token": minted, "claims": claims})
    else:
        click.echo(minted)


def _claims(
    auth: AuthSettings, sub: str, issuer: str | None, audience: str | None, scopes: tuple[str, ...]
) -> dict[str, object]:
    from everbrook.server.auth.scopes import parse_scopes

    try:
        parse_scopes(" ".join(scopes))
    except ValueError as error:
        raise click.UsageError(f"--scope: {error}") from None
    known: dict[str, object] = {"sub": sub, "iss": issuer or auth.issuer or TEST_NAME, "jti": secrets.token_urlsafe(9)}
    audience = audience or auth.audience.strip("*") or TEST_NAME
    return known | {"aud": audience} | ({"scope": " ".join(scopes)} if scopes else {})


def _mint(folder: Path, claims: dict[str, object], kid: str | None) -> str:
    from everbrook.server.auth.key_pair import load_or_make_pair

    try:
        return load_or_make_pair(folder).mint(claims, kid)
    except ValueError as error:
        raise click.ClickException(f"{folder} has no usable key pair: {error}") from None


def _make_keys(folder: Path, algorithm: str | None, kid: str | None, *, as_json: bool) -> None:
    # Imported here: help needs no cryptography.
    from everbrook.server.auth.key_pair import ALGORITHM, ALGORITHMS, PUBLIC_FILE, make_pair, save_pair

    algorithm = algorithm or ALGORITHM
    if algorithm not in ALGORITHMS:
        raise click.UsageError(f"--algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
    pair = make_pair(algorithm, kid)
    save_pair(pair, folder)
    if as_json:
        print_json({"kid": pair.kid, "algorithm": algorithm, "jwks": str(folder / PUBLIC_FILE)})
    else:
        note(f"the key {pair.kid} is in {folder}; its public half is {folder / PUBLIC_FILE}")


def _default_folder() -> Path:
    from everbrook.stack.site import STACK_DIR, STACK_DIR_VARIABLE

    return Path(os.environ.get(STACK_DIR_VARIABLE) or STACK_DIR) / "keys"
