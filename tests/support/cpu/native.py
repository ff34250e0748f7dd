"""Compiles kernels for this machine, and calls them with memory next to inaccessible pages."""

import ctypes
import itertools
import mmap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.target.routine import NAME, Routine, Subroutine
from neurald.drivers.cpu.target.target import TARGETS, Target, runs_here

Array = np.ndarray[Any, np.dtype[Any]]

#: Targets whose code this machine can run.
RUNNABLE = [target for target in TARGETS.values() if runs_here(target)]
#: The targets among them for which generic code differs.
DIFFERENT = list({target.vector_bytes: target for target in reversed(RUNNABLE)}.values())[::-1]

_LIBC = ctypes.CDLL(None, use_errno=True)
_COUNTER = itertools.count()
_KEPT: list[Any] = []


def assembly_module(*routines: Routine) -> str:
    """Returns the text of a module with these routines and their helper functions."""
    called = {each for routine in routines for each in routine.subroutines}
    functions: list[Routine | Subroutine] = [*routines, *called]
    own = {each.declaration for each in called}
    declarations = sorted({line for each in functions for line in each.declarations} - own)
    texts = {each.name: each.text.replace(NAME, each.name) for each in functions}
    return "\n".join((*declarations, *texts.values()))


def target_machine(target: Target) -> llvm.TargetMachine:
    """Returns LLVM's code generator for a target."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )


def compiled(routines: Sequence[Routine], target: Target) -> Mapping[str, int]:
    """Returns the addresses of the routines' functions by name."""
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
    # No library is searched, so a call of an external function is an error.
    linked = library.link(compiler, f"native{next(_COUNTER)}")
    _KEPT.append((compiler, linked))
    return {name: linked[name] for name in names}


class Fenced:
    """Memory for an array that ends at an inaccessible page, or begins after one if `at_start`."""

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
        """Returns a copy of the contents."""
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
    """Runs a routine; returns its output and status.

    Args:
        routine: the routine.
        inputs: the elements of its arguments except the first one, the output.
        target: the target of its code.
        at_start: whether memory begins after an inaccessible page instead of ending before one.
        splits: work items at which another call begins; half of the work items by default. The last
            call runs first, so that its results are lost if an earlier one exceeds its own work
            items.
        functions: result of `compiled` for this routine and others; None compiles it alone.
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


def results(
    calls: Sequence[tuple[Routine, Mapping[Value, Array]]], target: Target, *, has_random_splits: bool = False
) -> Iterator[Array]:
    """Yields the outputs of routines that are compiled together; fails if one has a status.

    The memory of one routine ends before an inaccessible page, and that of the next one begins
    after one.

    Args:
        calls: the routines and the elements of their arguments; see `run`.
        target: the target of their code.
        has_random_splits: whether other calls begin at two random work items, not in the middle.
    """
    functions = compiled([routine for routine, _ in calls], target)
    for number, (routine, inputs) in enumerate(calls):
        splits: Sequence[int] = ()
        if has_random_splits:
            splits = sorted(np.random.default_rng(number).integers(0, routine.work_items + 1, 2).tolist())
        result, status = run(
            routine, inputs, target, at_start=bool(number % 2), splits=splits, functions=functions
        )
        assert not status, routine.label
        yield result


def _stored(value: Value, inputs: Mapping[Value, Array]) -> Array:
    array = inputs[value] if value.constant is None else value.constant
    return np.ascontiguousarray(array.astype(value.type.dtype, copy=False))
