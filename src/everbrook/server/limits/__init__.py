"""Limits on clients: rates, connections, live reads, load shedding. Quotas of stored bytes belong to the engine."""
