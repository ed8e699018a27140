"""The HTTP/1.1 transport: `httptools` parses, `uvloop` moves the bytes.

A request whose response needs no waiting is handled inside `data_received`, without a task or a future.
"""
