"""Streams through Spark to streams, while the driver and the server are killed: everything arrives once, in order."""
