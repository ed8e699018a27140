"""HTTP connections: requests, responses, and the libraries that transmit them.

Requests, broken connections, httpx2 and the small HTTP/1.1 client belong here; retries and the protocol do not.
"""
