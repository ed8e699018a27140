"""The client for programs on asyncio. The other side is written from this one by `tools/mirror.py`."""  # async only
# sync only: """The client for programs without an event loop."""
