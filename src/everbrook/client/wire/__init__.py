"""HTTP connections: what a client sends and gets back, and the libraries that carry it.

Requests, broken connections, httpx2 and the small HTTP/1.1 client belong here; retries and the protocol do not.
"""
