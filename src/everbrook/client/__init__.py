"""The client: what a program needs to work with a server over HTTP. It knows the protocol, never the server."""
