"""The client: what a program needs to work with a server over HTTP. It knows the protocol, never the server.

`_async` is written by hand, `_sync` is written from it by a tool: both have the same names and methods. What decides
without input or output is beside them: `flow`, `retry`, `content`, `page`, `refusals`. Requests leave through a `wire`,
behind which httpx2 is, or whatever a program brings in its place.
"""
