"""How subscriptions call their receivers."""

from typing import Annotated

from msgspec import Meta, Struct

from everbrook.settings.kinds import Count, PositiveSeconds, Switch


class WebhookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How subscriptions call their receivers."""

    allow_loopback_http: Annotated[
        Switch,
        Meta(
            description=(
                "Whether webhooks may go to `http://localhost` and loopback addresses, for development. "
                "Everything else must be `https` and public."
            )
        ),
    ] = False
    connect_timeout_secs: Annotated[
        PositiveSeconds, Meta(description="How long a connection to a receiver may take to come about.")
    ] = 5.0
    timeout_secs: Annotated[
        PositiveSeconds, Meta(description="How long a receiver may take to answer before the delivery has failed.")
    ] = 30.0
    max_concurrent: Annotated[
        Count,
        Meta(
            description=(
                "Slots for concurrent deliveries. A quarter is reserved for buckets without a running delivery. Of the "
                "rest a bucket takes a slot only while it holds fewer than are free; a bucket that is alone gets half "
                "of them. The base surface counts as a bucket."
            )
        ),
    ] = 100
    key_overlap_secs: Annotated[
        Count,
        Meta(
            description=(
                "How long the public half of a signing key stays published after a rotation: "
                "longer than receivers accept a signature, and than a delivery may take."
            )
        ),
    ] = 900
