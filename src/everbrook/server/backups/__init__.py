"""Backups over HTTP: the store is pinned, its files are given piece by piece, and it is let go again."""
