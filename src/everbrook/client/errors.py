"""Errors of the client. What a server refuses is a `ProtocolError`, of the same class as on the server.

ClientError
├── Unreachable       no answer after all attempts
├── AppendUncertain   an append was sent and not answered
├── ProducerReused    a producer whose id and numbers were used before
├── InvalidAnswer     an answer that breaks the protocol
│   ├── NotAStream    an answer of something else: a web page, a redirect (Redirected)
│   └── InvalidMessage  a message that is not of the type asked for
├── Unsupported       an extension of the protocol that this server does not have
├── StreamRewound     a stream that ends before what was read of it
├── StateEnded        an awaited change that can't come any more
└── ChangesMissed     changes that were dropped because their reader was too slow
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
    """An answer breaks the protocol: another kind of server may be at this URL."""


class NotAStream(InvalidAnswer):
    """The answer of another kind of server: a proxy, the login page of a network, another application."""


class Redirected(NotAStream):
    """The answer is a redirect. It is not followed, because another server must not see the token."""

    def __init__(self, asked: str, location: str) -> None:
        super().__init__(f"{asked} is answered with a redirect to {location!r}: if that is the server, give its URL")
        self.location = location


class InvalidMessage(InvalidAnswer):
    """A message is not of the type asked for. To skip it, read from `next_offset`, if that is known."""

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
    """Changes were dropped because their reader was too slow: look at the state, and begin anew."""
