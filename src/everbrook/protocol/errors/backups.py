"""Refusals about backups."""

from everbrook.protocol.errors.families import Conflict, NotFound


class BackupNotFound(NotFound):
    """There is no such backup: it was released, its lease has ended, or the server was restarted."""

    code = "backup_not_found"


class NothingToBackUp(Conflict):
    """The storage has no files that could be copied."""

    code = "nothing_to_back_up"
