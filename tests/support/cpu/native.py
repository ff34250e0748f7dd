"""Kernels' code compiled for this machine, and called with memory that ends where a page begins that must not be touched."""

import ctypes
import itertools
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.target.routine import NAME, Routine, Subroutine
from neurald.drivers.cpu.target.target import TARGETS, Target, runs_here

Array = np.ndarray[Any, np.dtype[Any]]

#: Targets whose code this machine can run.
RUNNABLE = [target for target in TARGETS.values() if runs_here(target)]
#: Those of them that general code differs for.
DIFFERENT = list({target.vector_bytes: target for target in reversed(RUNNABLE)}.values())[::-1]

_PROT_READ, _PROT_WRITE = 1, 2
_LIBC = ctypes.CDLL(None, use_errno=True)
_COUNTER = itertools.count()
_KEPT: list[Any] = []


def assembly_module(*routines: Routine) -> str:
    """The text of a module with nothing but these routines, and what they call."""
    called = {each for routine in routines for each in routine.subroutines}
    functions: list[Routine | Subroutine] = [*routines, *called]
    own = {each.declaration for each in called}
    declarations = sorted({line for each in functions for line in each.declarations} - own)
    texts = {each.name: each.text.replace(NAME, each.name) for each in functions}
    return "\n".join((*declarations, *texts.values()))


def target_machine(target: Target) -> llvm.TargetMachine:
    """What generates code for a target."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )


def compiled(routines: Sequence[Routine], target: Target) -> Mapping[str, int]:
    """The addresses of routines' functions, by their names."""
    module = llvm.parse_assembly(assembly_module(*routines))
    module.verify()
    machine = target_machine(target)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    code = machine.emit_object(module)
    compiler = llvm.create_lljit_compiler(target_machine(target))
    library = llvm.JITLibraryBuilder().add_object_img(code)
    names = {routine.name for routine in routines}
    for name in names:
        library.export_symbol(name)
    # No library is searched: what a routine calls beside itself is an error.
    linked = library.link(compiler, f"native{next(_COUNTER)}")
    _KEPT.append((compiler, linked))
    return {name: linked[name] for name in names}


class Fenced:
    """Memory for an array that ends at (or, if `at_start`, begins after) a page that nobody may touch."""

    def __init__(self, array: Array, *, at_start: bool = False) -> None:
        page = mmap.PAGESIZE
        pages = -(-array.nbytes // page) + 2
        self._map = mmap.mmap(-1, pages * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.address = base + (page if at_start else (pages - 1) * page - array.nbytes)
        for first in (base, base + (pages - 1) * page):
            assert not _LIBC.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(page), 0)
        if array.nbytes:
            ctypes.memmove(self.address, np.ascontiguousarray(array).ctypes.data, array.nbytes)
        self._shape, self._dtype = array.shape, array.dtype

    def array(self) -> Array:
        """A copy of what is there."""
        count = int(np.prod(self._shape)) * self._dtype.itemsize
        data = ctypes.string_at(self.address, count) if count else b""
        return np.frombuffer(data, self._dtype).reshape(self._shape).copy()


def run(
    routine: Routine,
    inputs: Mapping[Value, Array],
    target: Target,
    *,
    at_start: bool = False,
    splits: Sequence[int] = (),
    functions: Mapping[str, int] | None = None,
) -> tuple[Array, int]:
    """The output and the status of a routine.

    Args:
        routine: what is run.
        inputs: the elements of its arguments but the first.
        target: what its code is for.
        at_start: whether memory begins after a page that must not be touched, instead of ending before one.
        splits: work_items before which another call begins; half of the work_items unless some are given. The last call comes first, so that
            what it is given is gone if an earlier one writes beyond its own work_items.
        functions: what `compiled` gave for this routine and others; it is compiled alone where that is left out.
    """
    function = (functions or compiled([routine], target))[routine.name]
    output = routine.arguments[0]
    start = np.full(output.shape, 0x55, np.uint8).astype(output.type.dtype)
    memory = [Fenced(start, at_start=at_start)]
    memory += [Fenced(_stored(value, inputs), at_start=at_start) for value in routine.arguments[1:]]
    status = ctypes.c_int32(0)
    scratch = Fenced(np.zeros(-(-routine.scratch_bytes // 64) * 64, np.uint8), at_start=at_start)
    kinds = [ctypes.c_void_p] * (len(memory) + 2) + [ctypes.c_int64] * 2
    call = ctypes.CFUNCTYPE(None, *kinds)(function)
    inner = splits or [routine.work_items // 2]
    bounds = [0, *(split for split in inner if 0 < split < routine.work_items), routine.work_items]
    for first, last in reversed(list(itertools.pairwise(bounds))):
        call(*(each.address for each in memory), scratch.address, ctypes.addressof(status), first, last)
    return memory[0].array(), status.value


def _stored(value: Value, inputs: Mapping[Value, Array]) -> Array:
    array = inputs[value] if value.constant is None else value.constant
    return np.ascontiguousarray(array.astype(value.type.dtype, copy=False))
