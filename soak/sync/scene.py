"""What is kept in step: two tables that become streams, streams that become two tables, and the file of the jobs.

One table has a stream of its own; the rows of the other go to the streams that a column of theirs names. Streams are
read by two jobs: one writes each message down, the other keeps the current values.
"""

from pathlib import Path

ACCOUNTS, ORDERS = "accounts", "orders"
TABLES = (ACCOUNTS, ORDERS)
ROOMS = tuple(f"r{number}" for number in range(4))
ACCOUNTS_STREAM, ROOM_PREFIX, SESSION_PREFIX = "pg-accounts", "room/", "session/"
EVENTS_TABLE, STATE_TABLE = "session_events", "session_state"
CAPTURES = ("accounts", "orders")
"""The jobs that begin with a copy of their table."""
DATABASE = "soak"

JOURNAL = "journal"
"""What each transaction says of itself, in a table of its own: it is there if and only if its changes are."""

_COLUMNS = "id text PRIMARY KEY, room text NOT NULL, change bigint NOT NULL, tag bigint NOT NULL, body text NOT NULL"
_TOLD = (
    "change bigint PRIMARY KEY, writer int NOT NULL, place bigint NOT NULL, source text NOT NULL, "
    "key text, room text, tag bigint, old_key text, old_room text, old_change bigint"
)
SCHEMA = (
    *(f"CREATE TABLE {table} ({_COLUMNS})" for table in TABLES),
    f"CREATE TABLE {JOURNAL} ({_TOLD})",
)

_FILE = """\
[pipeline]
checkpoints = "checkpoints"
master = "local[2]"

[server]
url = "{server}"

[postgres]
url = "{postgres}"

[jobs.accounts]
source = {{ tables = ["{accounts}"], max_rows_per_trigger = 2000 }}
sink = {{ stream = "{accounts_stream}" }}

[jobs.orders]
source = {{ tables = ["{orders}"], stream_column = "room", stream_prefix = "{room_prefix}" }}
sink = {{ by_column = "stream" }}

[jobs.events]
source = {{ prefix = "{session_prefix}", max_rows_per_trigger = 20000 }}
sink = {{ table = "{events}" }}

[jobs.states]
source = {{ prefix = "{session_prefix}" }}
sink = {{ table = "{state}", mode = "state", create_table = true }}
"""


def write_jobs(folder: Path, *, server: str, postgres: str) -> Path:
    """Write the file of the jobs."""
    file = folder / "jobs.toml"
    file.write_text(
        _FILE.format(
            server=server,
            postgres=postgres,
            accounts=ACCOUNTS,
            accounts_stream=ACCOUNTS_STREAM,
            orders=ORDERS,
            room_prefix=ROOM_PREFIX,
            session_prefix=SESSION_PREFIX,
            events=EVENTS_TABLE,
            state=STATE_TABLE,
        )
    )
    return file


def copied(folder: Path) -> bool:
    """Tell whether the initial copies of both tables are complete."""
    return all((folder / "checkpoints" / job / "copy" / "capture.json").exists() for job in CAPTURES)


def stream_of(table: str, room: str) -> str:
    """Name the stream that the changes of a row go to."""
    return ACCOUNTS_STREAM if table == ACCOUNTS else f"{ROOM_PREFIX}{room}"
