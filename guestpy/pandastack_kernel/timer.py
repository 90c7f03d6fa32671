"""A one-shot timer as a file descriptor, for a thread that polls anyway.

Arming costs one system call and wakes nobody unless the time runs out, so a
short cell never pays for a thread switch.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC


class _Timespec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]


class _Itimerspec(ctypes.Structure):
    _fields_ = [("it_interval", _Timespec), ("it_value", _Timespec)]


# os.timerfd_create came with Python 3.13. PyDLL keeps the interpreter lock:
# the calls do not block.
_libc = ctypes.PyDLL(None, use_errno=True)


class Timer:
    """Becomes readable `seconds` after arm() unless disarm() comes first.

    The caller's lock guards it. An exception inside may leave it running while it
    is not `armed`, never the other way round.
    """

    def __init__(self, seconds: float) -> None:
        self.fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._set = _Itimerspec(it_value=_Timespec(0, int(seconds * 1e9)))
        self._clear = _Itimerspec()
        self.armed = False

    def arm(self) -> None:
        if not self.armed:
            _libc.timerfd_settime(self.fd, 0, byref(self._set), None)
            self.armed = True

    def disarm(self) -> None:
        """Also takes back an expiry that nobody has read."""
        self.armed = False
        _libc.timerfd_settime(self.fd, 0, byref(self._clear), None)
        if self.armed:  # by a signal handler, just before
            _libc.timerfd_settime(self.fd, 0, byref(self._set), None)

    def close(self) -> None:
        os.close(self.fd)
