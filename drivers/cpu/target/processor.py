"""The processor of this machine: its architecture, and the names of its features."""

import ctypes
import platform
from functools import cache
from typing import Final

#: The architecture, as `uname` names it.
MACHINE: Final = platform.machine()

#: Entries of the auxiliary vector, by which Linux tells a process what the processor can do, and
#: the names of their bits on 64-bit Arm, as in /proc/cpuinfo.
_ARM_FEATURES: Final = {
    16: {1: "asimd", 9: "fphp", 10: "asimdhp", 20: "asimddp"},
    26: {13: "i8mm", 14: "bf16"},
}

#: Maximum number of caches of a processor that are examined.
_MAX_CACHES: Final = 8

#: System call and arguments by which a process asks for permission to use tiles, since their state
#: takes 8 KiB for each thread.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18


@cache
def features() -> frozenset[str]:
    """Returns the names of the processor's features, as in /proc/cpuinfo; empty if unknown."""
    return _arm_features() if MACHINE == "aarch64" else _listed_features()


def _arm_features() -> frozenset[str]:
    """Reads the features from the auxiliary vector, which emulators adapt as well."""
    try:
        read = ctypes.CDLL(None).getauxval
    except AttributeError:
        return frozenset()
    read.argtypes, read.restype = (ctypes.c_ulong,), ctypes.c_ulong
    return frozenset(
        name
        for entry, names in _ARM_FEATURES.items()
        for bit, name in names.items()
        if read(entry) >> bit & 1
    )


def _listed_features() -> frozenset[str]:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


@cache
def code_cache_bytes(folder: str = "/sys/devices/system/cpu/cpu0/cache") -> int:
    """Returns the size of the first-level cache of instructions; 0 if it is unknown.

    Args:
        folder: where Linux describes the caches of a processor, each in a folder of its own.
    """
    for index in range(_MAX_CACHES):
        described = f"{folder}/index{index}"
        try:
            with open(f"{described}/type", encoding="ascii") as file:  # noqa: PTH123
                is_code = file.read().strip() == "Instruction"
            if is_code:
                with open(f"{described}/size", encoding="ascii") as file:  # noqa: PTH123
                    return int(file.read().strip().removesuffix("K")) << 10
        except (OSError, ValueError):
            return 0
    return 0


@cache
def may_use_tiles() -> bool:
    """Asks the kernel for permission to use tiles in this process; returns True if it is granted.

    Linux grants it to the whole process, unless a thread has a small stack for signals.
    """
    try:
        return int(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)) == 0
    except (OSError, AttributeError):
        return False
