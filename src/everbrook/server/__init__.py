"""The server: HTTP in front of the engine. The rules of the protocol are in `protocol/`, not here.

The transports (`http1/`, `asgi/`) make requests of bytes, the application finds the resource of each (`resources/`),
and the transports write its response.
"""
