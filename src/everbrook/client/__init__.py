"""The client: what a program needs to work with a server over HTTP. It knows the protocol, never the server.

`_async` is written by hand, `_sync` is written from it by a tool: both have the same names and methods. What decides
without input or output is beside them: `read_state`, `production`, `retry`, `content`, `page`, `refusals`. Requests
leave through a `wire`, behind which is httpx2 or whatever a program brings in its place.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client.environment import DEFAULT_URL as DEFAULT_URL
    from everbrook.client.jwks import Jwks as Jwks
    from everbrook.client.read_state import Mode as Mode
    from everbrook.client.webhooks import Reason as Reason, Receiver as Receiver, SignatureInvalid as SignatureInvalid
    from everbrook.client.wire.request import (
        ConnectionBroken as ConnectionBroken,
        NotConnected as NotConnected,
        Request as Request,
        ResponseLate as ResponseLate,
    )

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".environment": "DEFAULT_URL",
        ".read_state": "Mode",
        ".jwks": "Jwks",
        ".webhooks": "Reason Receiver SignatureInvalid",
        ".wire.request": "ResponseLate ConnectionBroken NotConnected Request",
    },
)
