"""How much of everything a run takes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes behind the aims; a quick run has smaller ones and shows only that everything works."""

    rounds: int = 3
    messages: int = 1_000_000
    few_streams: int = 100
    many_streams: int = 10_000
    copied: int = 500_000
    folded: int = 10_000_000
    replayed: int = 500_000
    warm_appends: int = 400
    appends: int = 200
    looks: int = 20
    backlogged: int = 1_000
    reference: bool = True


FULL = Size()
QUICK = Size(
    rounds=1,
    messages=20_000,
    few_streams=10,
    many_streams=100,
    copied=5_000,
    folded=20_000,
    replayed=10_000,
    warm_appends=3,
    appends=5,
    looks=3,
    backlogged=20,
)
