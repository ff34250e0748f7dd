"""Ranges of every length are copied, and nothing beside them is read or written."""

import ctypes

import numpy as np
import pytest
from support.cpu.native import DIFFERENT, Fenced, compiled
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.byte_copies import copy_bytes
from neurald.drivers.cpu.kernels.common.function import function_text
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Parts of a register, several registers, loops of them, and blocks.
COUNTS = (1, 2, 3, 7, 16, 31, 33, 63, 64, 65, 127, 130, 1023, 1024, 1100, 2049, 4096, 70001)


def _copy(count: int, target: Target, *, are_bools: bool) -> Routine:
    arguments = tuple(Value((count,), Scalar.UINT8) for _ in range(2))
    code = Instructions(parameter_names(arguments))
    to, source = pointer_names(arguments).values()
    copy_bytes(code, target, source, to, count, are_bools=are_bools)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=1,
        cost_ns=1.0,
        declarations=frozenset(code.declarations),
        label="copy",
        operations=(),
    )


@pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
@sweep("are_bools", [False, True])
def test_ranges_are_copied(are_bools: bool, target: Target) -> None:
    routines = [_copy(count, target, are_bools=are_bools) for count in COUNTS]
    functions = compiled(routines, target)
    generator = np.random.default_rng(3)
    for count, routine in zip(COUNTS, routines, strict=True):
        source = generator.integers(0, 4, count).astype(np.uint8)
        for at_start in (False, True):
            read = Fenced(source, at_start=at_start)
            written = Fenced(np.full(count, 9, np.uint8), at_start=at_start)
            function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)(
                functions[routine.name]
            )
            function(written.address, read.address, None, None, 0, 1)
            np.testing.assert_array_equal(written.array(), source != 0 if are_bools else source)
