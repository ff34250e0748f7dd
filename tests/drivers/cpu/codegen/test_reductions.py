"""Reductions: several accumulators, nested ones, and where their loops are."""

import re

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import accumulator, axis, load, reduce, select
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.target.target import TARGETS, Target


def test_reductions_have_several_accumulators() -> None:
    value = Value((20, 1000), Scalar.FLOAT32)
    along = axis(1000)
    at = (axis(20),)
    body = reduce(ReductionOp.SUM, (along,), load(value, (at[0], along)))
    text = render(Kernel(output=Value((20,), Scalar.FLOAT32), axes=at, body=body), TARGETS["avx512"]).text
    assert "phi <64 x float>" in text
    assert "masked.load" in text


@sweep("target", DIFFERENT, ids=lambda target: target.name)
def test_nested_reductions(target: Target) -> None:
    value = Value((9, 30, 20), Scalar.INT32)
    outer, inner = axis(30, "o"), axis(20, "n")

    y, x = axis(9, "y"), axis(20, "x")
    row = reduce(ReductionOp.MAXIMUM, (inner,), load(value, (y, outer, inner)))
    body = reduce(ReductionOp.SUM, (outer,), row * load(value, (y, outer, x)))
    inputs = {value: np.random.default_rng(17).integers(-9, 9, value.shape).astype(np.int32)}
    kernel = Kernel(output=Value((9, 20), Scalar.INT32), axes=(y, x), body=body)
    routine = render(kernel, target)
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, _ = run(routine, inputs, target, at_start=at_start, functions=functions)
        np.testing.assert_array_equal(got, interpreted(kernel, inputs))


@sweep("target", DIFFERENT, ids=lambda target: target.name)
@pytest.mark.parametrize("shape", [(7, 3), (7, 100), (3, 1000), (1, 5000)])
@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.FLOAT64])
def test_the_largest_number_leaves_out_nan(shape: tuple[int, int], kind: Scalar, target: Target) -> None:
    """Both for one function, and for two that are reduced together."""
    count, length = shape
    generator = np.random.default_rng(length)
    numbers = generator.normal(size=shape).astype(kind.dtype) - 3
    numbers[generator.random(shape) < 0.3] = np.nan
    numbers[-1, : length // 2], numbers[0, length - 1] = np.nan, np.inf
    if count > 1:
        numbers[1] = np.nan
    value, y, side, along = Value(shape, kind), axis(count), axis(2), axis(length)
    number = load(value, (y, along))
    of_both = reduce(ReductionOp.MAXIMUM_NUMBER, (along,), select(side.equals(0), -number, number))
    of_one = reduce(ReductionOp.MAXIMUM_NUMBER, (along,), number)
    largest = np.fmax.reduce(numbers, axis=1, initial=-np.inf)
    least = np.fmax.reduce(-numbers, axis=1, initial=-np.inf)
    for axes, body, expected in (
        ((y,), of_one, largest),
        ((y, side), of_both, np.stack([least, largest], axis=1)),
    ):
        kernel = Kernel(output=Value(expected.shape, kind), axes=axes, body=body)
        got, _ = run(generate(kernel, target), {value: numbers}, target)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(interpreted(kernel, {value: numbers}), expected)


@sweep("target", DIFFERENT, ids=lambda target: target.name)
@sweep("offset", range(-4, 2))
def test_elements_at_an_offset_from_the_reduced_axis(offset: int, target: Target) -> None:
    """Several accumulators read elements beside each other, some of them at the axis itself."""
    value, x, along = Value((20, 4), Scalar.INT32), axis(4, "x"), axis(24, "r")
    row = along + offset
    body = reduce(ReductionOp.SUM, (along,), load(value, (row, x), inside((row,), (20,)), 0))
    kernel = Kernel(output=Value((4,), Scalar.INT32), axes=(x,), body=body)
    numbers = np.random.default_rng(4).integers(-99, 99, value.shape).astype(np.int32)
    got, _ = run(render(kernel, target), {value: numbers}, target)
    np.testing.assert_array_equal(got, numbers[max(0, offset) : 24 + offset].sum(axis=0))


def _positions_of(text: str, name: str) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(name) + r"\b", text)]


@sweep("length", [3, 100])
def test_a_reduction_is_not_hoisted_above_its_operands(length: int) -> None:
    """An operand may only be known inside a loop, such as the sum of a contraction."""
    code = Instructions(("%a0",))
    total = accumulator(Scalar.FLOAT32)
    fold = reduce(ReductionOp.SUM, (axis(length, "r"),), total + 1.0)
    with code.loop("0", "10"):
        name = code.fresh("load float, ptr %a0")
        Statements(code, TARGETS["generic"], {}, {total: name}).value(fold)
    text = "\n".join(code.lines)
    assert len(_positions_of(text, name)) > 1
    assert all(text.index(f"{name} = ") <= place for place in _positions_of(text, name))
