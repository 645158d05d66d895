"""Files that may not be read, for tests that run as root: root without the right to override modes."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
# CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
_OVERRIDING = 1 << 1 | 1 << 2 | 1 << 3


@contextmanager
def no_override() -> Iterator[None]:
    """Take what overrides modes out of this thread's effective capabilities, and put it back."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; the low half, then the high one
    assert libc.capget(header, data) == 0
    before = data[0]
    data[0] = before & ~_OVERRIDING
    assert libc.capset(header, data) == 0
    try:
        yield
    finally:
        data[0] = before
        assert libc.capset(header, data) == 0
