"""Session events, to append to a JSON stream: the current value of things, and texts that grow.

    stream.append(session_events.append("chunk", "msg:1", "Hel"))

Each is checked by the rules of readers, so an empty key is refused before it is appended.
"""

from everbrook.protocol.state_changes import Append, Change, Json, Remove, Set, format_session, parse_message

__all__ = ["append", "remove", "set"]


def set(type_: str, key: str, value: object, /) -> Json:  # noqa: A001 - the dialect's own word, used behind its module's name
    """Write the value of an entity, whole."""
    return _checked(Set(type_, key, value))


def remove(type_: str, key: str, /) -> Json:
    """Write that an entity was removed."""
    return _checked(Remove(type_, key))


def append(type_: str, key: str, value: object, /) -> Json:
    """Write more of an entity's text, or of its list."""
    return _checked(Append(type_, key, value))


def _checked(change: Change) -> Json:
    written = format_session(change)
    parse_message(written)
    return written
