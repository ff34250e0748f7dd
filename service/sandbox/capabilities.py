"""Drops the capabilities of root that no driver needs.

A daemon of an ordinary user has none. One of root could otherwise do what neither Landlock nor the
filter of system calls knows, such as read the environments of other processes.
"""

import ctypes
import platform
import struct
from typing import Final

from neurald.service.sandbox.kernel import process_control, system_call

#: Numbers of capget and capset by machine type.
_NUMBERS: Final = {"x86_64": (125, 126), "aarch64": (90, 91)}
_VERSION_3: Final = 0x2008_0522
#: `struct __user_cap_header_struct`, and twice `struct __user_cap_data_struct`: the effective,
#: permitted and inheritable capabilities, first the lower 32 and then the upper ones.
_HEADER: Final = struct.Struct("=Ii")
_DATA: Final = struct.Struct("=6I")
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
#: Root keeps access to files of its own users, may lock memory for devices, and schedule threads:
#: CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_IPC_LOCK and CAP_SYS_NICE.
KEPT: Final = frozenset({1, 3, 14, 23})
_SETPCAP: Final = 8
_MAX_CAPABILITIES: Final = 64


def is_available() -> bool:
    """Returns True if the machine type is known."""
    return platform.machine() in _NUMBERS


def drop_capabilities() -> None:
    """Drops them for this thread and its children, permanently if PR_SET_NO_NEW_PRIVS is set.

    Raises:
        OSError: the kernel refuses.
    """
    get, put = _NUMBERS[platform.machine()]
    header = _HEADER.pack(_VERSION_3, 0)
    data = bytearray(_DATA.size)
    system_call(get, header, (ctypes.c_char * len(data)).from_buffer(data))
    low_effective, low_permitted, _, high_effective, high_permitted, _ = _DATA.unpack(data)
    permitted = low_permitted | high_permitted << 32
    if (low_effective | high_effective << 32) >> _SETPCAP & 1:
        for number in range(_MAX_CAPABILITIES):
            if number not in KEPT and _is_bounded(number):
                process_control(_PR_CAPBSET_DROP, number)
    kept = permitted & sum(1 << number for number in KEPT)
    low, high = kept & 0xFFFF_FFFF, kept >> 32
    system_call(put, header, _DATA.pack(low, low, 0, high, high, 0))


def _is_bounded(number: int) -> bool:
    """Returns True if a program that this process starts could get a capability."""
    libc = ctypes.CDLL(None)
    zero = ctypes.c_ulong(0)
    return bool(libc.prctl(_PR_CAPBSET_READ, ctypes.c_ulong(number), zero, zero, zero) == 1)
