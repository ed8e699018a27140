"""What every refusal is: an error that knows its status, its code and its headers, and can be found by its code."""

from typing import ClassVar

Headers = tuple[tuple[bytes, bytes], ...]

SHOWN_BYTES = 64


def quoted(text: bytes) -> str:
    """Show a client's bytes in an error message, bounded and printable."""
    shown = text[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(shown + ("…" if len(text) > SHOWN_BYTES else ""))


class ProtocolError(Exception):
    """A request was refused: `detail` says what was wrong, the value, and what was expected."""

    status: int = 500
    code: str = "internal_error"
    retry_after_secs: int | None = None
    by_code: ClassVar[dict[str, type["ProtocolError"]]] = {}

    def __init_subclass__(cls) -> None:
        # A subclass without a code of its own says more of the same kind.
        if "code" in vars(cls):
            ProtocolError.by_code[cls.code] = cls

    def __init__(self, detail: str, headers: Headers = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = headers
        if self.retry_after_secs is not None:
            self.headers += ((b"Retry-After", b"%d" % self.retry_after_secs),)
