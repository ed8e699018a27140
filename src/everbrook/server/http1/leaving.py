"""How a connection comes to an end with its server, or is handed over to the next image of it.

What is under way is answered in either case. Handed over is the bare socket, so nothing of a request may have been
read, and nothing of an answer be left to send.
"""

from everbrook.server.http1.timing import Timing


class Leaving(Timing):
    """Takes its leave, as the server does."""

    __slots__ = ()

    def shut_down(self) -> None:
        """Come to an end: answer what is under way, then close."""
        self._stopping = True
        if self._deferred is not None and not self._parked:
            self._deferred.shut_down()
        elif not self._outstanding() and not self._parser.receiving:
            self._ending = True
            self._transport.close()

    @property
    def under_way(self) -> bool:
        """Whether a request or an answer is on its way that may take its time. To follow a stream is neither."""
        if self._deferred is not None:
            return self._deferred.brief
        return self._refused or self._parser.receiving or self._transport.get_write_buffer_size() > 0

    def leave(self) -> None:
        """Take no further request: what is not read yet is for whoever has the connection next.

        A request of which a part was read must become whole here. What is encrypted can't be handed over, so it ends.
        """
        if self._leaving or self._stopping or self._transport.is_closing():
            return
        if self._transport.get_extra_info("sslcontext") is not None:
            self.shut_down()
            return
        self._leaving = True
        self._throttle()
        if self._deferred is not None and not self._parked:
            self._deferred.shut_down()

    @property
    def settled(self) -> bool:
        """Whether nothing is to be waited for: it has left, or it has ended but for the other side's leave-taking."""
        return self.left() is not None or (self._ending and not self._transport.get_write_buffer_size())

    def left(self) -> int | None:
        """Give the descriptor of the connection once nothing of it is left here, else None."""
        if self._ending or self._reading or self._refused or self._stopping or self._outstanding():
            return None
        if self._parser.receiving or self._transport.get_write_buffer_size():
            return None
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        return descriptor
