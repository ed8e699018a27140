"""Overload: what is left of a server's goodput when three times what it can do is asked of it.

Requests are due at moments of their own, whatever became of those before. An answer counts if it is good and came in
time, counted from when its request was due; it counts for the phase in which that was.
"""
