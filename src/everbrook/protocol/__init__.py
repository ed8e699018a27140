"""The rules of the specification, as values and pure functions.

Nothing here waits, reads a clock, draws a random number or touches a socket or a file: time and randomness are
arguments, so every decision replays.
"""
