# Written by tools/mirror.py from src/everbrook/client/_async/__init__.py: change that file, not this one.
"""The client for programs without an event loop."""
