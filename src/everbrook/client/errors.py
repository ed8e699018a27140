"""Errors of the client. What a server refuses is a `ProtocolError`, of the same class as on the server.

ClientError
├── Unreachable       no response after all attempts
├── AppendUncertain   an append was sent, and no response arrived
├── ProducerReused    the id and numbers of a producer were used before
├── InvalidAnswer     a response violates the protocol
│   ├── NotAStream    something else responded: a web page, a redirect (Redirected)
│   └── InvalidMessage  a message that is not of the requested type
├── Unsupported       the server lacks an extension of the protocol
├── StreamRewound     the stream was created again, or lost data
├── StateEnded        the awaited change can't come any more
└── ChangesMissed     a reader was too slow, and changes were dropped
"""

from typing import Any


class ClientError(Exception):
    """A request failed, though no server refused it."""


class Unreachable(ClientError):
    """No server answers at this URL."""


class AppendUncertain(ClientError):
    """The connection broke after an append was sent, which may be in the stream or not. A producer excludes this."""


class ProducerReused(ClientError):
    """The server knows the numbers of this producer already, so it takes new messages for duplicates."""


class InvalidAnswer(ClientError):
    """A response violates the protocol: another kind of server may be at this URL."""


class NotAStream(InvalidAnswer):
    """Another kind of server responded: a proxy, the login page of a network, another application."""


class Redirected(NotAStream):
    """The response is a redirect. It is not followed, because another server must not see the token."""

    def __init__(self, asked: str, location: str) -> None:
        super().__init__(f"{asked} is answered with a redirect to {location!r}: if that is the server, give its URL")
        self.location = location


class InvalidMessage(InvalidAnswer):
    """A message is not of the requested type. To skip it, read from `next_offset`, if that is known."""

    def __init__(self, words: str, before: list[Any], next_offset: str | None = None) -> None:
        """Carry the values of the messages that came before it in its page."""
        super().__init__(words)
        self.before = before
        self.next_offset = next_offset


class Unsupported(ClientError):
    """The server does not have an extension of the protocol that the request needs."""


class StreamRewound(ClientError):
    """A stream ends before an offset that was read, or has another incarnation: it was created anew, or lost data."""


class StateEnded(ClientError):
    """An awaited change can't come any more: the stream is closed, or the state is."""


class ChangesMissed(ClientError):
    """Changes were dropped because their reader was too slow: read the state, and call `changes` again."""
