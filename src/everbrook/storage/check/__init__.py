"""Checking and repairing stores that no server uses. The recovery of a store at its opening is not here."""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.storage.check.base_copy import is_copyable as is_copyable
    from everbrook.storage.check.base_walk import (
        BackgroundWalk as BackgroundWalk,
        WalkedOpening as WalkedOpening,
        walk_base as walk_base,
    )
    from everbrook.storage.check.repair import Repair as Repair
    from everbrook.storage.check.report import (
        DamagedStream as DamagedStream,
        Findings as Findings,
        KnownDamage as KnownDamage,
        Progress as Progress,
        Remark as Remark,
        Report as Report,
        Tally as Tally,
        check_store as check_store,
        find_stores as find_stores,
        known_damage as known_damage,
    )
    from everbrook.storage.check.store_check import StoreCheck as StoreCheck

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".base_copy": "is_copyable",
        ".base_walk": "BackgroundWalk WalkedOpening walk_base",
        ".repair": "Repair",
        ".report": "DamagedStream KnownDamage Findings Progress Remark Report Tally "
        "check_store find_stores known_damage",
        ".store_check": "StoreCheck",
    },
)
