"""Damage: bytes that were stored and are not what was written."""

from pathlib import Path

from everbrook.storage.packing import Damaged


class Damage(Damaged):
    """Says which file is damaged, and from which position on."""

    def __init__(self, path: Path, position: int) -> None:
        super().__init__(f"{path} is damaged at byte {position}")
        self.path = path
        self.position = position
