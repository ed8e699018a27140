"""Tuning of authentication: timers and sizes that are not settings. Only tests choose others."""

from msgspec import Struct


class WatchTuning(Struct, frozen=True, kw_only=True):
    """How a file of keys is watched."""

    look_secs: float = 1.0
    """How old what is known of the file may be before it is looked at again."""

    max_file_bytes: int = 16 * 1024 * 1024
    """A larger file is refused."""


class IssuerTuning(Struct, frozen=True, kw_only=True):
    """How the keys of an issuer are fetched."""

    hold_off_secs: float = 60.0
    """How long after the start of a fetch an unknown key causes no other fetch."""

    retry_secs: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0)
    """The pauses after failed fetches while no keys are known; the last one repeats."""

    timeout_secs: float = 5.0
    """How long a fetch may take, and so how long it may delay the start of the server."""

    max_missed: int = 1000
    """Unknown key ids that are remembered with the time at which they were first named."""

    max_withdrawn: int = 1000
    """Key ids that are remembered as withdrawn by the issuer."""


class GuessTuning(Struct, frozen=True, kw_only=True):
    """The rate limits of bad signatures."""

    per_sec: float = 8.0
    """Of one address."""

    all_per_sec: float = 128.0
    """Of all addresses together."""

    burst_secs: float = 2.0
    """The rates may be exceeded by as much as they allow in this time."""

    remembered_secs: float = 10.0
    """How long an address counts as one that guesses."""


class TokenTuning(Struct, frozen=True, kw_only=True):
    """How tokens are verified."""

    max_remembered: int = 10_000
    """Verified tokens that are remembered, so that they need not be verified again."""

    guesses: GuessTuning = GuessTuning()


class AuthTuning(Struct, frozen=True, kw_only=True):
    """All of authentication and authorization."""

    recheck_secs: float = 5.0
    """After how long at most a live read ends whose permission was revoked."""

    watch: WatchTuning = WatchTuning()
    issuer: IssuerTuning = IssuerTuning()
    tokens: TokenTuning = TokenTuning()


DEFAULT_TUNING = AuthTuning()
