"""Overload: what is left of a server's goodput when three times what it can do is asked of it.

An answer counts if it is good and came in time, by when its request was due, whatever became of those before it.
"""
