"""The HTTP/1.1 transport: `httptools` parses, `uvloop` moves the bytes.

A request that can be answered from memory is answered inside `data_received`, with no task and no future.
"""
