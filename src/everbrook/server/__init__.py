"""The server: bytes in and out. It knows HTTP; the rules of the protocol are elsewhere."""
