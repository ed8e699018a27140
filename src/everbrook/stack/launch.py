"""Replaces itself by another program, which ends when its parent ends, and which need not be root.

It is run by path, so that nothing of Everbrook is imported: `python launch.py PARENT SIGNAL UID GID PROGRAM ARGUMENT…`.
Only Linux signals the death of a parent. On other systems the next start of the stack ends leftover processes.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_SET_SECUREBITS = 28
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE = 1

_NOBODY_SPECIAL = -1


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Capabilities(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_root(uid: int, gid: int) -> None:
    """Become an ordinary user that can still enter the folders of root.

    Postgres refuses to run as root, yet its programs and its data may lie below a folder that only root may enter.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    linux = sys.platform == "linux"
    if linux:
        # The second call is for access(2), by which Postgres looks for its programs: otherwise access(2) ignores the
        # capabilities of an ordinary user. Where the call is not allowed, the permissions of the files decide.
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
        libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if linux:
        _keep_passage(libc)


def _keep_passage(libc: ctypes.CDLL) -> None:
    """Keep the capability to enter all folders over the change of user and program, and drop all others."""
    if _limit_rights(libc, 1 << _CAP_DAC_OVERRIDE):
        libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0)
    elif not _limit_rights(libc, 0):
        sys.exit("the rights of root could not be dropped")


def _limit_rights(libc: ctypes.CDLL, bits: int) -> bool:
    header = _Header(_CAPABILITY_VERSION_3, 0)
    rights = (_Capabilities * 2)(_Capabilities(bits, bits, bits), _Capabilities(0, 0, 0))
    return bool(libc.capset(ctypes.byref(header), ctypes.byref(rights)) == 0)


def end_with_parent(parent: int, signal_number: int) -> None:
    """Request a signal for the death of the parent. If the parent is dead already, exit: no signal would come."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def main(arguments: list[str]) -> None:
    """Read the arguments, and replace this process by the program."""
    parent, signal_number, uid, gid = (int(argument) for argument in arguments[:4])
    if uid != _NOBODY_SPECIAL:
        drop_root(uid, gid)
    # This comes after the change of user, which resets it.
    end_with_parent(parent, signal_number)
    for restored in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(restored, signal.SIG_DFL)
    os.execv(arguments[4], arguments[4:])  # noqa: S606 - to start a program is what this is for


if __name__ == "__main__":
    main(sys.argv[1:])
