"""What machine code is generated for: a family of processors, by the widths and instructions that kernels may use."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData

#: Chooses a target by name, whatever the processor: avx512vnni, avx512, avx2 or generic.
TARGET_VARIABLE = "NEURALD_CPU_TARGET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A family of processors.

    Attributes:
        cpu: LLVM's name of the oldest processor of the family; "" for whatever LLVM takes as the basis.
        features: LLVM's features beyond those of `cpu`, as "+avx512f,+fma".
        vector_bytes: of a register.
        registers: how many vector registers there are.
        has_fma: whether a × b + c is one instruction.
        has_vnni: whether there are dot products of four unsigned by four signed bytes.
        has_half: whether halves are converted by instructions.
        needs: what the processor must have, as Linux writes it in /proc/cpuinfo.
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

    def lanes(self, size_bytes: int) -> int:
        """How many elements of that size a register holds."""
        return self.vector_bytes // size_bytes


_AVX512 = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "fma", "f16c"))

#: The best first.
TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
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
    """What the processor has; nothing where that is not known."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - read once, line by line
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


def runs_here(target: Target) -> bool:
    """Whether this machine's processor has what the target needs."""
    return target.needs <= _flags()


def host_target(settings: Settings) -> Target:
    """The target that `NEURALD_CPU_TARGET` names, or the best one for this machine.

    Args:
        settings: of the driver.

    Raises:
        BadData: there is none of that name, or the processor cannot run it.
    """
    wanted = settings.text(TARGET_VARIABLE)
    if not wanted:
        return next(target for target in TARGETS.values() if runs_here(target))
    target = TARGETS.get(wanted)
    if target is None:
        raise BadData(f"{TARGET_VARIABLE} is {wanted!r}; one of {', '.join(TARGETS)} is expected")
    if not runs_here(target):
        missing = ", ".join(sorted(target.needs - _flags()))
        raise BadData(f"{TARGET_VARIABLE} is {wanted!r}, and this processor lacks {missing}")
    return target
