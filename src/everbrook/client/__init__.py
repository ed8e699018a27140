"""The client: what a program needs to work with a server over HTTP. It knows the protocol, never the server.

`_async` is written by hand, `_sync` is written from it by a tool: both have the same names and methods. What decides
without input or output is beside them: `flow`, `retry`, `content`, `page`, `refusals`. Requests leave through a `wire`,
behind which httpx2 is, or whatever a program brings in its place.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client.address import DEFAULT_URL as DEFAULT_URL
    from everbrook.client.flow.reading import Mode as Mode
    from everbrook.client.jwks import Jwks as Jwks
    from everbrook.client.webhooks import Reason as Reason, Receiver as Receiver, SignatureInvalid as SignatureInvalid
    from everbrook.client.wire import (
        AnswerLate as AnswerLate,
        ConnectionBroken as ConnectionBroken,
        NotConnected as NotConnected,
        Request as Request,
    )

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".address": "DEFAULT_URL",
        ".flow.reading": "Mode",
        ".jwks": "Jwks",
        ".webhooks": "Reason Receiver SignatureInvalid",
        ".wire": "AnswerLate ConnectionBroken NotConnected Request",
    },
)
