"""Targets of code generation: processor families with their register widths and instructions."""

from collections.abc import Mapping

from msgspec import Struct

from neurald.drivers.cpu.target.processor import MACHINE, features, may_use_tiles
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData

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


#: What LLVM uses on the processors that are named below. A hypervisor may hide single features.
_AVX2 = frozenset(("avx2", "fma", "f16c", "abm", "bmi1", "bmi2", "movbe", "popcnt"))
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}

#: In descending order of preference.
TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="amx",
            cpu="cascadelake",
            features="+fast-dpwssd,+avx512vbmi,+amx-tile,+amx-int8,+amx-bf16",
            vector_bytes=64,
            registers=32,
            has_fma=True,
            has_mixed_dots=True,
            has_short_dots=True,
            has_half=True,
            has_tiles=True,
            has_byte_permutes=True,
            needs=_AVX512 | {"avx512_vnni", "avx512vbmi", "amx_tile", "amx_int8", "amx_bf16"},
        ),
        Target(
            name="avx512fp16",
            cpu="cascadelake",
            features="+fast-dpwssd,+avx512vbmi,+avx512fp16",
            vector_bytes=64,
            registers=32,
            has_fma=True,
            has_mixed_dots=True,
            has_short_dots=True,
            has_half=True,
            has_half_products=True,
            has_byte_permutes=True,
            needs=_AVX512 | {"avx512_vnni", "avx512vbmi", "avx512_fp16"},
        ),
        Target(
            name="avx512vbmi",
            cpu="cascadelake",
            features="+fast-dpwssd,+avx512vbmi",
            vector_bytes=64,
            registers=32,
            has_fma=True,
            has_mixed_dots=True,
            has_short_dots=True,
            has_half=True,
            has_byte_permutes=True,
            needs=_AVX512 | {"avx512_vnni", "avx512vbmi"},
        ),
        Target(
            name="avx512vnni",
            cpu="cascadelake",
            features="+fast-dpwssd",
            vector_bytes=64,
            registers=32,
            has_fma=True,
            has_mixed_dots=True,
            has_short_dots=True,
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
            has_half=True,
            needs=_AVX2,
        ),
        Target(
            name="aarch64i8mm",
            cpu="",
            features="+neon,+dotprod,+i8mm,+fullfp16",
            vector_bytes=16,
            registers=32,
            has_fma=True,
            has_mixed_dots=True,
            has_signed_dots=True,
            has_byte_matrices=True,
            has_half=True,
            has_half_products=True,
            needs=frozenset(("asimd", "asimddp", "i8mm", "asimdhp")),
            machine="aarch64",
        ),
        Target(
            name="aarch64dotprod",
            cpu="",
            features="+neon,+dotprod,+fullfp16",
            vector_bytes=16,
            registers=32,
            has_fma=True,
            has_signed_dots=True,
            has_half=True,
            has_half_products=True,
            needs=frozenset(("asimd", "asimddp", "asimdhp")),
            machine="aarch64",
        ),
        Target(
            name="aarch64fp16",
            cpu="",
            features="+neon,+fullfp16",
            vector_bytes=16,
            registers=32,
            has_fma=True,
            has_half=True,
            has_half_products=True,
            needs=frozenset(("asimd", "asimdhp")),
            machine="aarch64",
        ),
        Target(
            name="aarch64",
            cpu="",
            features="+neon",
            vector_bytes=16,
            registers=32,
            has_fma=True,
            has_half=True,
            needs=frozenset(("asimd",)),
            machine="aarch64",
        ),
        Target(
            name="generic",
            cpu="",
            features="",
            vector_bytes=16,
            registers=16,
            has_fma=False,
            has_half=False,
            needs=frozenset(),
            machine=MACHINE,
        ),
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
