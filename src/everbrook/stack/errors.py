"""Why the stack, or a part of it, can't be what it was asked to be. Each message says what to do about it."""


class StackError(Exception):
    """The stack can't start: the message is for whoever started it."""


class WrongParts(StackError):
    """Parts that do not exist, or not without others, were asked for."""


class PortTaken(StackError):
    """A part can't listen where it should: somebody else does, or it is no address of this machine."""


class ProgramMissing(StackError):
    """A program that a part needs is not on this machine."""


class DataUnusable(StackError):
    """The data folder is another version's, somebody else's, or can't be written to."""


class NotReady(StackError):
    """A part has ended, or has not become ready in time."""
