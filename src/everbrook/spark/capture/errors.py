"""What can go wrong with a capture. Each error says what to do about it.

CaptureError
├── CaptureRefused    Postgres or its settings do not allow it: nothing changes by trying again
│   └── ChangesLost   the slot is gone or moved: only a new copy of the tables helps
└── PostgresAway      Postgres can't be reached, or the slot is in use: trying again may help
"""


class CaptureError(Exception):
    """Changes can't be captured."""


class CaptureRefused(CaptureError):
    """Something about the database, its settings or the tables has to be changed first."""


class ChangesLost(CaptureRefused):
    """Changes were made that can't be read any more."""


class PostgresAway(CaptureError):
    """Postgres is not there, or does not let the capture in at the moment."""


START_OVER = (
    "Make a new copy: run `everbrook pipeline reset` for a job, or else call capture.drop(url, slot) and "
    "capture.forget(copyLocation), and start the query with a new checkpoint"
)
