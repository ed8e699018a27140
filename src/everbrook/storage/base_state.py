"""The state of the base: the rows of the database `meta`, which describe the base and the journal in front of it."""

from collections.abc import Mapping
from contextlib import suppress
from struct import Struct

import msgspec
from msgspec import Struct as Value

from everbrook.storage.base_rows import DATA
from everbrook.storage.journal_scan import Needed
from everbrook.storage.manifest import BASE, StoreError

APPLIED, LAST_INCARNATION, NEEDED = b"applied", b"incarnation", b"journal"
MANIFEST_COPY, OPENED = b"manifest", b"opened"
STATE = (APPLIED, LAST_INCARNATION, NEEDED, MANIFEST_COPY, OPENED)
NUMBER = Struct("<Q")
NUMBERS = Struct("<QQ")

_SIZES = {APPLIED: NUMBER.size, LAST_INCARNATION: NUMBER.size, NEEDED: NUMBERS.size}


class Opened(Value, frozen=True):
    """How a store was opened: whether its journal was synced, and in which boot of the machine."""

    sync: bool
    boot: str

    def kept_in(self, boot: str) -> bool:
        """Return whether all writes of that opening survive in this boot: unsynced ones end with the machine."""
        return self.sync or self.boot == boot


class BaseState(Value, frozen=True, kw_only=True):
    """The rows of `meta`, parsed."""

    applied: int = 0
    """The number of the last change that is in the base."""
    last_incarnation: int = 0
    """At least the largest incarnation that was ever stored, including those of deleted streams."""
    needed: Needed = Needed()
    manifest: bytes = b""
    opened: bytes = b""
    """How the store was opened last."""


def is_whole(key: bytes, value: bytes | None) -> bool:
    """Return whether a row of the state verifies and has the size that its key requires."""
    return value is not None and len(value) == _SIZES.get(key, len(value))


def is_readable(key: bytes, value: bytes | None) -> bool:
    """Return whether a row of the state is whole and can be parsed."""
    if value is not None and key == OPENED:
        with suppress(StoreError):
            return parse_opened(value) is not None
        return False
    return is_whole(key, value)


def parse_state(rows: Mapping[bytes, bytes]) -> BaseState:
    """Parse the rows of the state. A missing row has not been written yet."""
    return BaseState(
        applied=NUMBER.unpack(rows.get(APPLIED, bytes(NUMBER.size)))[0],
        last_incarnation=NUMBER.unpack(rows.get(LAST_INCARNATION, bytes(NUMBER.size)))[0],
        needed=Needed(*NUMBERS.unpack(rows[NEEDED])) if NEEDED in rows else Needed(),
        manifest=rows.get(MANIFEST_COPY, b""),
        opened=rows.get(OPENED, b""),
    )


def parse_opened(text: bytes) -> Opened | None:
    """Parse how the store was opened last; None if it never was. Raises `StoreError` if the row can't be parsed."""
    try:
        return msgspec.json.decode(text, type=Opened) if text else None
    except msgspec.MsgspecError as error:
        raise StoreError(f"{BASE}/{DATA} has no readable record of the last opening of the store: {error}") from None
