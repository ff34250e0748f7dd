from collections.abc import Callable

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, Array, run

from neurald.drivers.compiler.ir.expression import Expression, accumulator, apply, axis, clamp, load, maximum
from neurald.drivers.compiler.ir.graph import MatrixProduct
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import (
    arguments_of,
    epilogue,
    parameter_names,
    parameters,
    pointer_names,
)
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import load as load_vector
from neurald.drivers.cpu.emit.vector_memory import masked_load
from neurald.drivers.cpu.target.routine import NAME, Routine
from neurald.drivers.cpu.target.target import Target

_RANDOM = np.random.default_rng(3)
_TARGETS = pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
_ROWS, _CHANNELS = 5, 37


def _kernel(total: Scalar, body: Callable[..., Expression], *others: Value) -> Kernel:
    """Returns a product with the identity matrix, whose sums are the elements of its left side."""
    kind = Scalar.FLOAT32 if total.is_float else Scalar.INT32
    left, right = Value((_ROWS, _CHANNELS), kind), Value((_CHANNELS, _CHANNELS), kind)
    at = axis(_ROWS, "m"), axis(_CHANNELS, "n")
    output = Value((_ROWS, _CHANNELS), total)
    element = body(accumulator(total), *at, *others)
    return Kernel(
        output=Value((_ROWS, _CHANNELS), element.type),
        axes=at,
        body=element,
        contraction=MatrixProduct(output=output, left=left, right=right),
    )


def _routine(kernel: Kernel, target: Target, lanes: int) -> Routine:
    """Returns a routine with the left side as sums; the last vector of a row is partial."""
    values = arguments_of(kernel)
    code = Instructions(parameter_names(values))
    assert kernel.contraction is not None
    pointer = pointer_names(values)[kernel.contraction.inputs[0]]
    element = "float" if kernel.contraction.output.type.is_float else "i32"
    v = Vector(code, target, lanes)
    with code.loop("%begin", "%end", may_be_empty=True) as row:
        for first in range(0, _CHANNELS, lanes):
            place = code.value(f"add i64 {code.value(f'mul i64 {row.index}, {_CHANNELS}')}, {first}")
            there = [first + lane < _CHANNELS for lane in range(lanes)]
            mask = None if all(there) else v.numbers("i1", there)
            if mask is None:
                total = load_vector(v, element, pointer, place)
            else:
                total = masked_load(v, element, pointer, place, mask)
            epilogue(kernel, target, code, total, [row.index, str(first)], lanes, mask)
    lines = (f"define void @{NAME}({parameters(values)}) {{", *code.lines, "  ret void", "}", "")
    return Routine(
        text="\n".join((*code.globals, *lines)),
        arguments=values,
        work_items=_ROWS,
        cost_ns=1.0,
        declarations=frozenset(code.declarations),
    )


def _check(kernel: Kernel, inputs: dict[Value, Array], target: Target) -> None:
    assert kernel.contraction is not None
    left, right = kernel.contraction.inputs
    kind = left.type.dtype
    inputs = {
        left: _RANDOM.integers(-3000, 3000, left.shape).astype(kind),
        right: np.eye(_CHANNELS, dtype=kind),
        **inputs,
    }
    want = interpreted(kernel, inputs)
    for lanes in (4, 16, 1):
        got, status = run(_routine(kernel, target, lanes), inputs, target)
        assert not status
        np.testing.assert_array_equal(got, want)


@_TARGETS
def test_bias_activation_and_a_residual(target: Target) -> None:
    bias, residual = Value((_CHANNELS,), Scalar.FLOAT32), Value((_ROWS, _CHANNELS), Scalar.FLOAT16)

    def body(total: Expression, m: Expression, n: Expression, bias: Value, residual: Value) -> Expression:
        added = total + load(bias, (n,)) + load(residual, (m, n)).to(Scalar.FLOAT32)
        return apply(Op.MINIMUM, maximum(added, 0.0), load(bias, (n * 0,)) + 2000.0)

    inputs: dict[Value, Array] = {
        bias: _RANDOM.integers(-9, 9, bias.shape).astype(np.float32),
        residual: _RANDOM.integers(-9, 9, residual.shape).astype(np.float16),
    }
    _check(_kernel(Scalar.FLOAT32, body, bias, residual), inputs, target)


@_TARGETS
@pytest.mark.parametrize("total", [Scalar.INT32, Scalar.INT64])
def test_rescaling_by_channel_and_a_table(total: Scalar, target: Target) -> None:
    mantissa, exponent = Value((_CHANNELS,), Scalar.INT32), Value((_CHANNELS,), Scalar.INT32)
    table = Value((256,), Scalar.INT8)

    def body(total: Expression, m: Expression, n: Expression, *values: Value) -> Expression:
        factor = load(values[0], (n,)), load(values[1], (n,))
        scaled = apply(Op.FIXED_POINT, total.to(Scalar.INT64), *factor, type=Scalar.INT64)
        stored = clamp(scaled + 5, -128, 127).to(Scalar.INT8)
        return load(values[2], (stored.to(Scalar.INDEX) + 128,))

    inputs: dict[Value, Array] = {
        mantissa: _RANDOM.integers(2**30, 2**31, _CHANNELS).astype(np.int32),
        exponent: _RANDOM.integers(-6, 0, _CHANNELS).astype(np.int32),
        table: _RANDOM.permutation(np.arange(-128, 128)).astype(np.int8),
    }
    _check(_kernel(total, body, mantissa, exponent, table), inputs, target)


@_TARGETS
def test_values_shorter_than_a_vector(target: Target) -> None:
    few, flags = Value((2, 3), Scalar.INT8), Value((_ROWS, _CHANNELS), Scalar.BOOL)

    def body(total: Expression, m: Expression, n: Expression, few: Value, flags: Value) -> Expression:
        guarded = load(few, (m - 1, n - 30), (m >= 1) & (m < 3) & (n >= 30) & (n < 33), 7)
        return (total + guarded.to(Scalar.INT32) + load(flags, (m, n)).to(Scalar.INT32)).to(Scalar.INT16)

    inputs: dict[Value, Array] = {
        few: _RANDOM.integers(-9, 9, few.shape).astype(np.int8),
        flags: _RANDOM.integers(0, 2, flags.shape).astype(bool),
    }
    _check(_kernel(Scalar.INT32, body, few, flags), inputs, target)


def test_values_of_a_channel_are_computed_once_per_tile() -> None:
    target, bias = DIFFERENT[0], Value((_CHANNELS,), Scalar.FLOAT32)
    kernel = _kernel(Scalar.FLOAT32, lambda total, m, n, bias: total + apply(Op.EXP, load(bias, (n,))), bias)
    code = Instructions(parameter_names(arguments_of(kernel)))
    sums = [code.fresh("freeze <16 x float> poison") for _ in range(4)]
    before = len(code.lines)
    for row, total in enumerate(sums):
        epilogue(kernel, target, code, total, [str(row), "0"], 16)
        if not row:
            first, before = len(code.lines) - before, len(code.lines)
    # Each further element takes an address, an addition and a store.
    assert len(code.lines) - before <= 3 * 3 < first
