"""Streams as tables of a lake: Delta tables, written exactly once, and back into streams."""
