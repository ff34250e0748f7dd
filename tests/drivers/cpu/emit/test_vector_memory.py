"""Masked stores write only the lanes of the mask, in every form of the mask."""

import numpy as np
import pytest
from support.cpu.native import DIFFERENT, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import parameter_names
from neurald.drivers.cpu.emit import vector_memory
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.function import function_text
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

pytestmark = pytest.mark.quick

_LANES = 16


@sweep("spelling", [("false", "true"), ("0", "1")], ids=["words", "digits"])
@sweep("lanes", [1, 2, 3, 15])
@sweep("target", DIFFERENT, ids=lambda target: target.name)
def test_numbers_truncated_to_bytes(target: Target, lanes: int, spelling: tuple[str, str]) -> None:
    """The memory ends after the stored lanes."""
    output, source = Value((lanes,), Scalar.INT8), Value((_LANES,), Scalar.INT32)
    code = Instructions(parameter_names((output, source)))
    v = Vector(code, target, _LANES)
    limit = v.number("i32", 127)
    found = v.call("llvm.smin", "i32", vector_memory.load(v, "i32", "%a1", "0"), limit)
    mask = "<" + ", ".join(f"i1 {spelling[lane < lanes]}" for lane in range(_LANES)) + ">"
    vector_memory.store(v, "i8", v.cast("trunc", "i32", found, "i8"), "%a0", "0", mask)
    routine = Routine(
        text=function_text(code, (output, source)),
        arguments=(output, source),
        work_items=1,
        cost_ns=1,
        declarations=frozenset(code.declarations),
    )
    values = np.arange(90, 90 + 5 * _LANES, 5, dtype=np.int32)
    result, _ = run(routine, {source: values}, target)
    np.testing.assert_array_equal(result, np.minimum(values, 127)[:lanes])
