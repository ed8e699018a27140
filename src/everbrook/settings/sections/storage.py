"""Where streams are kept."""

from pathlib import Path
from typing import Annotated, Self

from msgspec import Meta, Struct

from everbrook.settings.kinds import Choice, Folder, ShardCount


class StorageMode(Choice):
    """Where streams are kept."""

    MEMORY = "memory"
    FILE_FAST = "file-fast"
    FILE_DURABLE = "file-durable"
    ACID = "acid"

    @property
    def durable(self) -> bool:
        """Whether streams outlive the process."""
        return self is not StorageMode.MEMORY

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # What the Rust server calls the mode with this promise, after its database.
        return super()._missing_("acid" if str(value).lower() == "redb" else value)


class StorageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where streams are kept."""

    mode: Annotated[
        StorageMode,
        Meta(
            description=(
                "What an acknowledged append survives. `memory`: nothing, streams are gone with the process. "
                "`file-fast`: the end of the process. `file-durable`: the end of the machine. "
                "`acid`, also called `redb`: the end of the machine, each change entirely or not at all."
            )
        ),
    ] = StorageMode.ACID
    data_dir: Annotated[
        Folder,
        Meta(description="Where the durable modes keep streams. Made if missing; one server at a time uses it."),
    ] = "./data/streams"
    acid_shard_count: Annotated[
        ShardCount,
        Meta(
            description=(
                "Over how many LMDB environments mode `acid` spreads what it takes out of its journal. "
                "One journal takes the writes of all of them, so more shards buy nothing until LMDB itself is the "
                "limit. Fixed when the store is made."
            )
        ),
    ] = 1

    @property
    def store_dir(self) -> Path:
        """The folder of the store that the mode keeps; the two modes of files have one."""
        return Path(self.data_dir) / ("acid" if self.mode is StorageMode.ACID else "file")
