"""Errors of the stack and its parts. Each message says what to do."""


class StackError(Exception):
    """The stack can't start."""


class WrongParts(StackError):
    """The choice names a part that does not exist, or leaves out one that another part needs."""


class PortTaken(StackError):
    """A part can't listen at its address: the port is taken, or the address is not of this machine."""


class ProgramMissing(StackError):
    """A program that a part needs is not installed."""


class DataUnusable(StackError):
    """The data folder belongs to another version, is in use by another process, or is not writable."""


class NotReady(StackError):
    """A part has ended, or has not become ready in time."""
