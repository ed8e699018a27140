"""The long-running tests: servers that are killed, disks that fail, stores that are large.

`python -m soak` runs all of it, `python -m soak kill` and the like a part. Everything is drawn from a seed, bounded in
time, and says how far it has got. A violated promise ends the run with an error that names the seed.
"""
