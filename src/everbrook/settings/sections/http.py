"""What browsers and compressing clients get."""

from typing import Annotated

from msgspec import Meta, Struct

from everbrook.settings.kinds import Origins, Size


class HttpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What browsers and compressing clients get."""

    cors_origins: Annotated[
        Origins, Meta(description="Origins whose pages may use the server, separated by commas. `*`: all.")
    ] = "*"
    compression_min_bytes: Annotated[
        Size, Meta(description="Catch-up reads from this size on are compressed when the client accepts it.")
    ] = 1024
