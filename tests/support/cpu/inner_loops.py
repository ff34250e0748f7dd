"""Inner loops of the code that LLVM makes of kernels for 64-bit Arm, on any machine."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.native.objects.object_code import routine_unit
from neurald.drivers.cpu.schedule.lookup_tables import use_lookup_tables
from neurald.drivers.cpu.target.routine import Routine, Subroutine
from neurald.drivers.cpu.target.target import Target

_TRIPLE = "aarch64-unknown-linux-gnu"
_LABEL = re.compile(r"([.\w]+):")
_BRANCH = re.compile(r"(?:b|b\.\w+|cbn?z|tbn?z)\s+(?:\S+,\s*)*(\.L\w+)$")
#: Instructions that multiply and add.
_PRODUCT = re.compile(r"fmla|[su]m[lu]al2?\b|[su]mull2?\b|[su]?u?s?dot\b|[su]?usdot\b|us?mmla\b|smmla\b")
#: Instructions that move one element of a vector, or compute with one.
_SCALAR = re.compile(
    r"[su]mov\b|ins\b|bl\b|[su]div\b"
    # But for joining two halves of a vector.
    r"|mov\s+(?!v\d+\.d\[1\], v\d+\.d\[0\])(?:v\d+\.\w\[\d+\],|[wx]\d+, v|[bhsd]\d+, v)"
    r"|fmov\s+(?:[wx]\d+, [sd]|[sd]\d+, [wx])"
    r"|(?:ld1|st1)\s+\{.*\}\[\d+\]|fcvt\w*\s+[wx]\d"
)


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """A loop without another one in it.

    Attributes:
        label: describes the kernel.
        instructions: those of a turn.
    """

    label: str
    instructions: Sequence[str]

    @property
    def products(self) -> int:
        """Number of instructions that multiply and add vectors."""
        return sum(_PRODUCT.match(each) is not None for each in self.instructions)

    @property
    def scalars(self) -> int:
        """Number of instructions that take vectors apart, or call functions."""
        return sum(_SCALAR.match(each) is not None for each in self.instructions)

    @property
    def spills(self) -> int:
        """Number of instructions that load or store vectors on the stack."""
        return sum("[sp" in each and re.search(r"\bq\d", each) is not None for each in self.instructions)


def inner_loops(kernels: Sequence[Kernel], target: Target) -> list[InnerLoop]:
    """Returns the inner loops of kernels and of the subroutines that they call.

    Raises:
        RuntimeError: LLVM was built without 64-bit Arm.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(_TRIPLE).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )
    found = []
    for kernel in kernels:
        routine = generate(use_lookup_tables(kernel, target), target)
        called: list[Routine | Subroutine] = sorted(routine.subroutines, key=lambda each: each.name)
        for each in (*called, routine):
            module = llvm.parse_assembly(routine_unit(each).text)
            module.verify()
            found += [InnerLoop(routine.label, body) for body in _loops(machine.emit_assembly(module))]
    return found


def _loops(assembly: str) -> Iterator[list[str]]:
    lines: list[str] = []
    places: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for each in assembly.splitlines():
        text = each.partition("//")[0].strip()
        label = _LABEL.fullmatch(text)
        if label:
            places[label[1]] = len(lines)
        elif text and not text.startswith("."):
            lines.append(re.sub(r"\s+", " ", text))
            branch = _BRANCH.match(lines[-1])
            if branch and branch[1] in places:
                spans.append((places[branch[1]], len(lines)))
    for first, last in spans:
        inner = [each for each in spans if first <= each[0] and each[1] <= last]
        if inner == [(first, last)]:
            yield lines[first:last]
