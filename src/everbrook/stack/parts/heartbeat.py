"""The heartbeat: something to see in both directions, every few seconds. See `everbrook.stack.heartbeat`."""

import subprocess
from typing import ClassVar

from everbrook.stack.parts.part import Part
from everbrook.stack.site import EVENTS_STREAM


class Heartbeat(Part):
    name: ClassVar = "heartbeat"
    needs: ClassVar = ("server", "postgres")
    summary: ClassVar = "a row or an event every few seconds"

    @property
    def url(self) -> str:
        """The stream that every second tick goes to."""
        return self.site.stream_url(EVENTS_STREAM)

    def start(self) -> subprocess.Popen[bytes]:
        state = ("--state", str(self.site.data_dir / "heartbeat.json"))
        return self.everbrook(*state, "--interval", str(self.site.interval_secs), module="everbrook.stack.heartbeat")
