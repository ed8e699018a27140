"""The web page that shows streams."""

from typing import Annotated

from msgspec import Meta, Struct

from everbrook.settings.kinds import Origins, Switch


class UiSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether there is a web page, and what it may show."""

    enabled: Annotated[Switch, Meta(description="Whether the web page is served, at `/ui`.")] = True
    connect_origins: Annotated[
        Origins,
        Meta(
            description=(
                "Other servers whose streams the page may show, separated by commas. Empty: only those of this server."
            )
        ),
    ] = ""
