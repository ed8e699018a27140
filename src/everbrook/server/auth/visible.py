"""What of a listing is visible: the parts of a range of names that prefixes cover, in the order of the names.

Only those parts are ever looked at: who may see a few streams does not cost a walk over all of them.
"""

from collections.abc import Iterable

from msgspec import Struct

from everbrook.server.auth.grants import below


class Span(Struct, frozen=True, order=True):
    """The names that begin with `start`, or, if it is `exact`, only the one that is `start`."""

    start: bytes
    exact: bool = False

    def covers(self, name: bytes) -> bool:
        """Tell whether a name is one of these."""
        return name == self.start if self.exact else name.startswith(self.start)


def visible_spans(prefixes: Iterable[bytes], window: bytes) -> tuple[Span, ...]:
    """Give what prefixes, which count by whole segments, cover of the names that begin with `window`."""
    known = set(prefixes)
    if any(window.startswith(b"%b/" % prefix) for prefix in known):
        return (Span(window),)
    inside = {prefix for prefix in known if prefix.startswith(window)}
    outermost = [each for each in inside if not any(below(other, each) for other in inside if other != each)]
    spans = [span for prefix in outermost for span in (Span(prefix, exact=True), Span(b"%b/" % prefix))]
    return tuple(sorted(spans))
