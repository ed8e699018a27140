"""Bounds in time, looked at once a second: who sends, reads or keeps silent for too long is not waited for."""

from typing import TYPE_CHECKING

from everbrook.protocol.errors import RequestTimeout
from everbrook.server.http1.strain import Strain

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener


class Timing(Strain):
    """Ends what has taken too long."""

    __slots__ = ("_seen_body_bytes",)

    def __init__(self, listener: "Listener") -> None:
        super().__init__(listener)
        self._seen_body_bytes = 0

    def check(self, now: float) -> None:
        """End what has taken too long."""
        if self._leaving and not self._reading:
            return
        self._set_buffered(self._held_bytes())
        settings, waited_secs = self._application.settings.server, now - self._since
        if self._refused and not self._outstanding():
            if waited_secs >= self._listener.connection_tuning.linger_secs:
                self._transport.abort()
        elif self.congested or self._ending:
            self._check_backlog(now, settings.slow_reader_timeout_secs)
        elif self._parser.receiving:
            if self._reading:
                self._check_sender(now, settings.request_timeout_secs)
        elif not self._outstanding() and 0 < settings.idle_timeout_secs <= waited_secs - self._listener.tick_secs:
            self._close_idle()

    def _check_sender(self, now: float, timeout_secs: float) -> None:
        """A body earns time as it comes, by the rate that it must have, but never more than it has already taken."""
        body_bytes = self._parser.body_bytes
        new_bytes, self._seen_body_bytes = body_bytes - self._seen_body_bytes, body_bytes
        if new_bytes:
            rate = self._application.settings.server.min_body_bytes_per_sec
            self._since = min(now, self._since + new_bytes / rate) if rate else now
        if 0 < timeout_secs <= now - self._since:
            self._count("slow_ended", "sender")
            self._refuse(RequestTimeout("the request took too long to arrive"))

    def _check_backlog(self, now: float, timeout_secs: float) -> None:
        backlog_bytes = self._transport.get_write_buffer_size()
        if backlog_bytes < self._backlog_bytes:
            self._backlog_bytes, self._since = backlog_bytes, now
        elif 0 < timeout_secs <= now - self._since:
            self._count("slow_ended", "reader")
            self._transport.abort()

    def _close_idle(self) -> None:
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._ending = True
            self._transport.close()
