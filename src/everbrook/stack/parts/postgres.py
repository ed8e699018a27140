"""Postgres: a cluster in the data folder of the stack, with the database and the tables that the others use."""

import signal
import subprocess
from typing import ClassVar

from everbrook.stack.parts.part import Part
from everbrook.stack.postgres import HOST, Postgres, require_free
from everbrook.stack.preparing import make_database, make_tables
from everbrook.stack.site import Site


class Database(Part):
    name: ClassVar = "postgres"
    summary: ClassVar = "tables: items and session_events"
    stop_signal: ClassVar = signal.SIGINT

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._cluster = Postgres(site.data_dir / "postgres", site.postgres_port, log=self.log)

    @property
    def url(self) -> str:
        return self.site.postgres_url

    def check(self) -> None:
        """Refuse a port that is taken, and data that no Postgres of this machine can read."""
        require_free(HOST, self.site.postgres_port, "Postgres")
        self._cluster.programs()

    def start(self) -> subprocess.Popen[bytes]:
        return self._cluster.start().process

    def ready(self) -> bool:
        """Ask whether it answers, and make what the others use."""
        if not self._cluster.ready():
            return False
        make_database(self.url)
        make_tables(self.url)
        return True
