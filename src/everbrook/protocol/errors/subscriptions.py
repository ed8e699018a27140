"""Refusals about subscriptions: the webhooks and the workers that take what they bring."""

from everbrook.protocol.errors.families import BadRequest, Conflict, NotFound, Unauthorized
from everbrook.protocol.errors.refusal import Headers


class InvalidRequest(BadRequest):
    """A request about a subscription is malformed (§6.2)."""

    code = "INVALID_REQUEST"


class WebhookUrlRejected(BadRequest):
    """The server does not send to this URL (§12.8)."""

    code = "WEBHOOK_URL_REJECTED"


class TokenInvalid(Unauthorized):
    """The token was not issued here, or for another subscription (§12.9)."""

    code = "TOKEN_INVALID"


class TokenExpired(Unauthorized):
    """The token was issued here, and its time is over (§12.9)."""

    code = "TOKEN_EXPIRED"


class SubscriptionNotFound(NotFound):
    """There is no such subscription (§6.3)."""

    code = "SUBSCRIPTION_NOT_FOUND"


class SubscriptionExists(Conflict):
    """The subscription exists with another configuration (§6.2)."""

    code = "SUBSCRIPTION_ALREADY_EXISTS"


class Fenced(Conflict):
    """The wake is not the current one any more (§7.3)."""

    code = "FENCED"


class AlreadyClaimed(Conflict):
    """Another worker holds the lease (§7.2)."""

    code = "ALREADY_CLAIMED"

    def __init__(self, detail: str, headers: Headers = (), holder: str = "", generation: int = 0) -> None:
        super().__init__(detail, headers)
        self.holder = holder
        self.generation = generation


class NoPendingWork(Conflict):
    """There is nothing to claim (§7.2)."""

    code = "NO_PENDING_WORK"


class InvalidAck(Conflict):
    """An ack is of a stream that is not linked, moves back, or lies beyond the tail (§7)."""

    code = "INVALID_OFFSET"
