"""Opening tables to read them: a Delta table of now or of a version, or any folder of Parquet, as an Arrow dataset."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from everbrook.spark.lake.errors import TableMismatch

_ENDING = ".parquet"


def open_table(folder: Path, version: int | None = None) -> Any:  # noqa: ANN401 - a dataset of pyarrow, which is untyped
    """Open a table, whichever kind it is."""
    if (folder / "_delta_log").is_dir():
        from everbrook.spark.lake.delta import open_delta  # noqa: PLC0415 - only where there is one

        return open_delta(folder, version).to_pyarrow_dataset()
    if version is not None:
        raise TableMismatch(f"{folder} is no Delta table: only these have versions")
    if not folder.is_dir():
        raise TableMismatch(f"{folder} is no folder: there is no table yet")
    return _open_folder(folder)


def _open_folder(folder: Path) -> Any:  # noqa: ANN401
    """Open a folder of Parquet by the columns of all its files."""
    files = [path for path in sorted(folder.absolute().rglob(f"*{_ENDING}")) if not _is_hidden(path, folder)]
    if not files:
        raise TableMismatch(f"{folder} has no file of Parquet in it: none whose name ends with {_ENDING}")
    found = _dataset(folder, files, partitioning="hive")
    return _dataset(folder, files, partitioning="hive", schema=_agreed(folder, found))


def _agreed(folder: Path, found: Any) -> pa.Schema:  # noqa: ANN401
    """Give the columns of all files, each of a type that takes the values of all."""
    agreed = _without_dictionaries(found.schema)
    for fragment in found.get_fragments():
        columns = _without_dictionaries(fragment.physical_schema)
        try:
            agreed = pa.unify_schemas([agreed, columns], promote_options="permissive")
        except pa.ArrowException as error:
            raise TableMismatch(
                f"the files of {folder} do not go together: {Path(fragment.path).name} has a column of another type "
                f"than files before it ({error}). Replay files of one kind at a time"
            ) from error
    return agreed


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Give columns as if each value stood in its row."""
    types = (field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema)
    return pa.schema([field.with_type(type_) for field, type_ in zip(schema, types, strict=True)])


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder.absolute()).parts)


def _dataset(folder: Path, files: list[Path], **options: Any) -> Any:  # noqa: ANN401
    """Read these files, and no others that may be there."""
    names = [str(path) for path in files]
    return ds.dataset(names, format="parquet", partition_base_dir=str(folder.absolute()), **options)
