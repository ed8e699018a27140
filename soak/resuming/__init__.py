"""Writers that resume: killed and started again, they have copied their source into a stream exactly once.

The programs are those of `docs/exactly-once.md`.
"""
