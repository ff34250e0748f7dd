"""Makes Linux system calls for which Python has no function."""

import ctypes
import os
from functools import cache


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: "int | bytes | ctypes.Array[ctypes.c_char] | None") -> int:
    """Makes a system call. Bytes and buffers are passed by address.

    Raises:
        OSError: the call failed.
    """
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _libc().syscall(ctypes.c_long(number), *values)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def process_control(option: int, argument: int) -> int:
    """Calls `prctl` with one argument.

    Raises:
        OSError: the call failed.
    """
    zero = ctypes.c_ulong(0)
    result: int = _libc().prctl(option, ctypes.c_ulong(argument), zero, zero, zero)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
