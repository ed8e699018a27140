"""Durable Streams for Python."""
