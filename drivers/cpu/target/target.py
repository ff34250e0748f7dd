"""Targets of code generation: processor families with their register widths and instructions."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from neurald.drivers.cpu.target.processor import MACHINE, features, may_use_tiles
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData
from neurald.hal.records import replace

#: Environment variable that selects a target by name.
TARGET_VARIABLE = "NEURALD_CPU_TARGET"
#: Environment variable with the default number of threads of an execution.
THREADS_VARIABLE = "NEURALD_THREADS"
_CACHE_LINE_BYTES = 64


class Target(Struct, frozen=True, kw_only=True):
    """A family of processors.

    Attributes:
        cpu: LLVM's name of the oldest processor of the family; "" for LLVM's baseline.
        features: LLVM features beyond those of `cpu`, such as "+avx512f,+fma".
        vector_bytes: size of a vector register.
        registers: number of vector registers.
        has_fma: True if a × b + c is one instruction.
        has_mixed_dots: True if there are dot products of four unsigned by four signed bytes.
        has_signed_dots: True if there are those of four by four signed bytes.
        has_byte_matrices: True if there are products of two rows by two columns of eight bytes,
            with the signedness of any of these dot products.
        has_short_dots: True if there are dot products of two by two signed 16-bit values.
        has_half: True if there are conversions from and to float16.
        has_half_products: True if vectors of float16 are multiplied and added.
        has_byte_permutes: True if an instruction chooses bytes from two registers (AVX-512 VBMI).
        has_tiles: True if there are products of tiles of bytes and of bfloat16 (AMX).
        is_relaxed: True if FLOAT32 may be computed with the precision of float16, as relaxed models
            allow.
        needs: required features of the processor, as in /proc/cpuinfo.
        machine: the architecture, as `uname` names it.
    """

    name: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    has_fma: bool
    has_mixed_dots: bool = False
    has_signed_dots: bool = False
    has_byte_matrices: bool = False
    has_short_dots: bool = False
    has_half: bool
    has_half_products: bool = False
    needs: frozenset[str]
    machine: str = "x86_64"
    has_tiles: bool = False
    has_byte_permutes: bool = False
    is_relaxed: bool = False

    def lanes(self, size_bytes: int) -> int:
        """Returns the number of elements of this size in a register."""
        return self.vector_bytes // size_bytes

    @property
    def has_byte_dots(self) -> bool:
        """True if there are dot products of four by four bytes."""
        return self.has_mixed_dots or self.has_signed_dots

    @property
    def crosses_lines(self) -> bool:
        """True if every vector of an array that begins in a cache line ends in the next one."""
        return self.vector_bytes == _CACHE_LINE_BYTES


def _beyond(
    base: Target, name: str, *, cpu: str | None = None, features: str = "", needs: str, **more: Any
) -> Target:
    """Returns a target with more than another one.

    Args:
        base: the other target.
        name: the name of the target.
        cpu: see `Target`; None for that of the other one.
        features: further features of LLVM.
        needs: further required features of the processor, with blanks between them.
        more: the other attributes that differ.
    """
    return replace(
        base,
        name=name,
        cpu=base.cpu if cpu is None else cpu,
        features=",".join(filter(None, (base.features, features))),
        needs=base.needs.union(needs.split()),
        **more,
    )


_GENERIC = Target(
    name="generic",
    cpu="",
    features="",
    vector_bytes=16,
    registers=16,
    has_fma=False,
    has_half=False,
    needs=frozenset(),
    machine=MACHINE,
)
# What a target needs is what LLVM uses on its processors. A hypervisor may hide single features.
_AVX2 = _beyond(
    _GENERIC,
    "avx2",
    cpu="haswell",
    needs="avx2 fma f16c abm bmi1 bmi2 movbe popcnt",
    vector_bytes=32,
    has_fma=True,
    has_half=True,
    machine="x86_64",
)
_AVX512 = _beyond(
    _AVX2,
    "avx512",
    cpu="skylake-avx512",
    needs="avx512f avx512bw avx512dq avx512vl avx512cd",
    vector_bytes=64,
    registers=32,
)
_AVX512_VNNI = _beyond(
    _AVX512,
    "avx512vnni",
    cpu="cascadelake",
    features="+fast-dpwssd",
    needs="avx512_vnni",
    has_mixed_dots=True,
    has_short_dots=True,
)
_AVX512_VBMI = _beyond(
    _AVX512_VNNI, "avx512vbmi", features="+avx512vbmi", needs="avx512vbmi", has_byte_permutes=True
)
_AVX512_FP16 = _beyond(
    _AVX512_VBMI, "avx512fp16", features="+avx512fp16", needs="avx512_fp16", has_half_products=True
)
_AMX = _beyond(
    _AVX512_VBMI,
    "amx",
    features="+amx-tile,+amx-int8,+amx-bf16",
    needs="amx_tile amx_int8 amx_bf16",
    has_tiles=True,
)
_AARCH64 = _beyond(
    _GENERIC,
    "aarch64",
    features="+neon",
    needs="asimd",
    registers=32,
    has_fma=True,
    has_half=True,
    machine="aarch64",
)
_AARCH64_FP16 = _beyond(
    _AARCH64, "aarch64fp16", features="+fullfp16", needs="asimdhp", has_half_products=True
)
_AARCH64_DOTPROD = _beyond(
    _AARCH64_FP16, "aarch64dotprod", features="+dotprod", needs="asimddp", has_signed_dots=True
)
_AARCH64_I8MM = _beyond(
    _AARCH64_DOTPROD,
    "aarch64i8mm",
    features="+i8mm",
    needs="i8mm",
    has_mixed_dots=True,
    has_byte_matrices=True,
)

#: In descending order of preference.
TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        _AMX,
        _AVX512_FP16,
        _AVX512_VBMI,
        _AVX512_VNNI,
        _AVX512,
        _AVX2,
        _AARCH64_I8MM,
        _AARCH64_DOTPROD,
        _AARCH64_FP16,
        _AARCH64,
        _GENERIC,
    )
}


def runs_here(target: Target) -> bool:
    """Returns True if this machine's processor can run the target's code in this process."""
    return (
        target.machine == MACHINE and target.needs <= features() and (not target.has_tiles or may_use_tiles())
    )


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
        if target.machine != MACHINE:
            raise BadData(
                f"{TARGET_VARIABLE} is {wanted!r}, a target for {target.machine}; this is {MACHINE}"
            )
        missing = ", ".join(sorted(target.needs - features())) or "permission of the kernel to use tiles"
        raise BadData(f"{TARGET_VARIABLE} is {wanted!r}, but this processor lacks {missing}")
    return target
