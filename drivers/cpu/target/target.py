"""Targets of code generation: processor families with their register widths and instructions."""

import ctypes
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData

#: Environment variable that selects a target by name: amx, avx512vnni, avx512, avx2 or generic.
TARGET_VARIABLE = "NEURALD_CPU_TARGET"


class Target(Struct, frozen=True, kw_only=True):
    """A family of processors.

    Attributes:
        cpu: LLVM's name of the oldest processor of the family; "" for LLVM's baseline.
        features: LLVM features beyond those of `cpu`, such as "+avx512f,+fma".
        vector_bytes: size of a vector register.
        registers: number of vector registers.
        has_fma: True if a × b + c is one instruction.
        has_vnni: True if there are dot products of four unsigned by four signed bytes.
        has_half: True if there are conversions from and to float16.
        has_tiles: True if there are products of tiles of bytes (AMX).
        needs: required processor flags, as in /proc/cpuinfo.
    """

    name: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    has_fma: bool
    has_vnni: bool
    has_half: bool
    needs: frozenset[str]
    has_tiles: bool = False

    def lanes(self, size_bytes: int) -> int:
        """Returns the number of elements of this size in a register."""
        return self.vector_bytes // size_bytes


_AVX512 = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "fma", "f16c"))

#: System call and arguments by which a process asks for permission to use tiles, since their state
#: takes 8 KiB for each thread.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18

#: In descending order of preference.
TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="amx",
            cpu="cascadelake",
            features="+fast-dpwssd,+amx-tile,+amx-int8",
            vector_bytes=64,
            registers=32,
            has_fma=True,
            has_vnni=True,
            has_half=True,
            has_tiles=True,
            needs=_AVX512 | {"avx512_vnni", "amx_tile", "amx_int8"},
        ),
        Target(
            name="avx512vnni",
            cpu="cascadelake",
            features="+fast-dpwssd",
            vector_bytes=64,
            registers=32,
            has_fma=True,
            has_vnni=True,
            has_half=True,
            needs=_AVX512 | {"avx512_vnni"},
        ),
        Target(
            name="avx512",
            cpu="skylake-avx512",
            features="",
            vector_bytes=64,
            registers=32,
            has_fma=True,
            has_vnni=False,
            has_half=True,
            needs=_AVX512,
        ),
        Target(
            name="avx2",
            cpu="haswell",
            features="",
            vector_bytes=32,
            registers=16,
            has_fma=True,
            has_vnni=False,
            has_half=True,
            needs=frozenset(("avx2", "fma", "f16c", "bmi2")),
        ),
        Target(
            name="generic",
            cpu="",
            features="",
            vector_bytes=16,
            registers=16,
            has_fma=False,
            has_vnni=False,
            has_half=False,
            needs=frozenset(),
        ),
    )
}


@cache
def _flags() -> frozenset[str]:
    """Returns the processor's flags; empty if unknown."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - read once, line by line
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


@cache
def _may_use_tiles() -> bool:
    """Asks the kernel for permission to use tiles in this process; returns True if it is granted.

    Linux grants it to the whole process, unless a thread has a small stack for signals.
    """
    try:
        return int(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)) == 0
    except (OSError, AttributeError):
        return False


def runs_here(target: Target) -> bool:
    """Returns True if this machine's processor can run the target's code in this process."""
    return target.needs <= _flags() and (not target.has_tiles or _may_use_tiles())


def host_target(settings: Settings) -> Target:
    """Returns the target that `NEURALD_CPU_TARGET` names, or the best one for this machine.

    Args:
        settings: the driver's settings.

    Raises:
        BadData: the name is unknown, or the processor cannot run the target's code.
    """
    wanted = settings.text(TARGET_VARIABLE)
    if not wanted:
        return next(target for target in TARGETS.values() if runs_here(target))
    target = TARGETS.get(wanted)
    if target is None:
        raise BadData(f"{TARGET_VARIABLE} is {wanted!r}; expected one of {', '.join(TARGETS)}")
    if not runs_here(target):
        missing = ", ".join(sorted(target.needs - _flags())) or "permission of the kernel to use tiles"
        raise BadData(f"{TARGET_VARIABLE} is {wanted!r}, but this processor lacks {missing}")
    return target
