"""The web page: its files, and how they are served. It has no data of its own: everything comes over the public API."""
