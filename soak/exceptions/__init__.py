"""Exceptions in callbacks of a running server, one at a time: other streams go on, or the process ends."""
