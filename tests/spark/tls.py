"""A proxy that speaks TLS in front of a server."""

import socket
import ssl
import threading
from contextlib import closing, suppress
from urllib.parse import urlsplit

from tests.kit.certificates import HOST, Authority, Pair


class TlsProxy:
    """Takes TLS off what comes, and passes it on to a server."""

    def __init__(self, url: str, pair: Pair, clients: Authority | None = None) -> None:
        """Accept every client, or only clients with a certificate of the authority `clients`."""
        self._target = (urlsplit(url).hostname, urlsplit(url).port)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.cert, pair.key)
        if clients is not None:
            self._context.load_verify_locations(clients.ca)
            self._context.verify_mode = ssl.CERT_REQUIRED
            # A refused certificate then fails the handshake, not the first read behind it.
            self._context.maximum_version = ssl.TLSVersion.TLSv1_2
        self._listener = socket.create_server((HOST, 0))
        self.url = f"https://{HOST}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        try:
            secure = self._context.wrap_socket(near, server_side=True)
        except OSError:
            near.close()
            return
        far = socket.create_connection(self._target)
        back = threading.Thread(target=_pass, args=(far, secure), daemon=True)
        back.start()
        with closing(far), closing(secure):
            _pass(secure, far)
            back.join()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
