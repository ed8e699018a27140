"""HTTP servers of tests, which answer as a test wants it."""

import sys
from http.server import ThreadingHTTPServer
from socket import socket


class AnsweringServer(ThreadingHTTPServer):
    """A server that does not report a client that closes its connection before it has the answer.

    The report would go to the standard error of the whole process, and so into that of another test.
    """

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
