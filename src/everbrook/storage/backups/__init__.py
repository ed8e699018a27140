"""Backups: atomic, verified copies of a store at one moment. The protocol for fetching them belongs to the server."""
