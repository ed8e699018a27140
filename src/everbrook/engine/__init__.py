"""The engine: load, decide, store, wake. It knows time, order, waiting and limits; not HTTP, not bytes on disk."""
