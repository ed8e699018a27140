"""The settings of the storage."""

from pathlib import Path
from typing import Annotated, Self

from msgspec import Meta, Struct

from everbrook.settings.kinds import Choice, Folder, ShardCount, Switch


class StorageMode(Choice):
    """The storage modes: how much an acknowledged append survives, see `StorageSettings.mode`."""

    MEMORY = "memory"
    FILE_FAST = "file-fast"
    FILE_DURABLE = "file-durable"
    ACID = "acid"

    @property
    def durable(self) -> bool:
        """Whether streams outlive the process."""
        return self is not StorageMode.MEMORY

    @property
    def store(self) -> str:
        """The name of the store's folder, empty for memory mode. The two file modes share a folder."""
        return {StorageMode.MEMORY: "", StorageMode.ACID: "acid"}.get(self, "file")

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # The Rust server names its mode with this guarantee after its database.
        return super()._missing_("acid" if str(value).lower() == "redb" else value)


class StorageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The storage of streams."""

    mode: Annotated[
        StorageMode,
        Meta(
            description=(
                "What an acknowledged append survives. `memory`: nothing, streams end with the process. "
                "`file-fast`: the end of the process. `file-durable`: the end of the machine. `acid`, also called "
                "`redb`: the end of the machine, and each change is atomic."
            )
        ),
    ] = StorageMode.ACID
    data_dir: Annotated[
        Folder,
        Meta(
            description=(
                "The folder in which the durable modes keep streams. It is made if it is missing; one server at a "
                "time uses it."
            )
        ),
    ] = "./data/streams"
    acid_shard_count: Annotated[
        ShardCount,
        Meta(
            description=(
                "Accepted for compatibility, without effect: one journal takes the writes of all streams, and sixteen "
                "of them took a third of its acknowledgements per second. A value above 1 logs one line."
            )
        ),
    ] = 1
    allow_unused_store: Annotated[
        Switch,
        Meta(
            description=(
                "Whether the server may start although `storage.data_dir` holds a store that the mode does not "
                "use: any in `memory`, else that of another mode. By default it refuses, so that its streams do "
                "not seem lost."
            )
        ),
    ] = False

    @property
    def store_dir(self) -> Path:
        """The folder of the store."""
        return Path(self.data_dir) / self.mode.store
