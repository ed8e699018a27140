"""The lake: streams are written to Delta tables exactly once, and copied from there back into streams."""
