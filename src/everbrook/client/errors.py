"""What can go wrong on the client's side. What a server refuses is a `ProtocolError`, of the server's own class.

ClientError
├── Unreachable       no answer, however often it was asked
├── AppendUncertain   an append was sent and not answered
├── ProducerReused    a producer whose name and numbers were used before
├── InvalidAnswer     an answer that makes no sense
│   ├── NotAStream    an answer of something else: a web page, a redirect (Redirected)
│   └── InvalidMessage  a message that is not of the type asked for
├── Unsupported       an extension of the protocol that this server does not have
├── StreamRewound     a stream that ends before what was read of it
├── StateEnded        a change that was waited for, and can't come any more
└── ChangesMissed     changes that were taken too slowly to be kept
"""

from typing import Any


class ClientError(Exception):
    """A request did not come to its end, though no server refused it."""


class Unreachable(ClientError):
    """No server answers at this URL."""


class AppendUncertain(ClientError):
    """The connection broke after an append was sent: it may be in the stream or not. A producer has no such doubt."""


class ProducerReused(ClientError):
    """The server knows this producer's numbers already, so it took what is new for a repetition."""


class InvalidAnswer(ClientError):
    """An answer is not what the protocol says: something else may be at this URL."""


class NotAStream(InvalidAnswer):
    """Something else than a stream server answers: a proxy, the page of a hotel's network, another application."""


class Redirected(NotAStream):
    """The answer leads elsewhere. Nothing is sent there: it may be another server, which must not see the token."""

    def __init__(self, asked: str, location: str) -> None:
        super().__init__(f"{asked} is answered with a redirect to {location!r}: if that is the server, give its URL")
        self.location = location


class InvalidMessage(InvalidAnswer):
    """A message is not of the type that was asked for. Read on from `next_offset`, if it is known, to pass it."""

    def __init__(self, words: str, before: list[Any], next_offset: str | None = None) -> None:
        """Carry the values of the messages that came before it in its page."""
        super().__init__(words)
        self.before = before
        self.next_offset = next_offset


class Unsupported(ClientError):
    """The server does not have what the request needs, which is not part of the base protocol."""


class StreamRewound(ClientError):
    """A stream ends before an offset that was read, or has another incarnation: it was created anew, or lost data."""


class StateEnded(ClientError):
    """What was waited for can't come any more: the stream is closed, or the state is."""


class ChangesMissed(ClientError):
    """Changes were taken so slowly that they were not kept: look at the state, and begin anew."""
