"""Kernels that copy or fill long blocks give the elements of the reference, on all targets."""

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, RUNNABLE, Array, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, axis, constant, index, load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.emit.block_moves import has_block_moves
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.records import replace

_RANDOM = np.random.default_rng(5)
_ROWS, _LENGTH = 3, 4401
_TARGETS = pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
_TYPES = (Scalar.INT8, Scalar.FLOAT16, Scalar.FLOAT32, Scalar.INT64, Scalar.BOOL)


def _bytes(value: Value) -> Array:
    """Returns numbers of any bits, FLOAT16 without NaN, whose bits the interpreter changes."""
    if value.type is Scalar.BOOL:
        return _RANDOM.integers(0, 2, value.shape).astype(bool)
    if value.type is Scalar.FLOAT16:
        return _RANDOM.normal(size=value.shape).astype(np.float16)
    return np.frombuffer(_RANDOM.bytes(value.size_bytes), value.type.dtype).reshape(value.shape)


def _check(kernel: Kernel, inputs: dict[Value, Array], target: Target) -> str:
    """Compares a kernel, whole and in parts, with the interpreter, and returns its text."""
    want = interpreted(kernel, inputs)
    routine = render(kernel, target)
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, status = run(routine, inputs, target, at_start=at_start, splits=(1, 3), functions=functions)
        assert not status
        assert got.tobytes() == want.tobytes()
    return routine.text


@sweep("kind", _TYPES)
@_TARGETS
def test_rows_at_any_offset_are_copied(kind: Scalar, target: Target) -> None:
    source = Value((_ROWS, _LENGTH), kind)
    row, column = axis(_ROWS), axis(_LENGTH - 13)
    kernel = Kernel(
        output=Value((_ROWS, _LENGTH - 13), kind), axes=(row, column), body=load(source, (row, column + 7))
    )
    text = _check(kernel, {source: _bytes(source)}, target)
    assert ("rep movsb" in text) == (has_block_moves(target) and kind is not Scalar.BOOL)


@_TARGETS
def test_rows_that_are_chosen_by_data_are_copied(target: Target) -> None:
    source, numbers = Value((_ROWS, _LENGTH), Scalar.INT64), Value((5,), Scalar.INT32)
    row, column = axis(5), axis(_LENGTH)
    chosen = load(numbers, (row,))
    kernel = Kernel(
        output=Value((5, _LENGTH), Scalar.INT64),
        axes=(row, column),
        body=load(source, (chosen.to(Scalar.INDEX), column)),
        requirements=((chosen < _ROWS, "too large"),),
    )
    rows = np.array([2, 0, 1, 1, 2], np.int32)
    text = _check(kernel, {source: _bytes(source), numbers: rows}, target)
    assert ("rep movsb" in text) == has_block_moves(target)


def test_failed_requirements_of_blocks_are_reported() -> None:
    source, limit = Value((40_000,), Scalar.FLOAT32), Value((1,), Scalar.INT32)
    at = axis(40_000)
    kernel = Kernel(
        output=Value((40_000,), Scalar.FLOAT32),
        axes=(at,),
        body=load(source, (at,)),
        requirements=((load(limit, (index(0),)) > 0, "positive"),),
    )
    target = RUNNABLE[0]
    routine = render(kernel, target)
    for number in (0, 1):
        inputs = {source: _bytes(source), limit: np.array([number], np.int32)}
        assert run(routine, inputs, target)[1] == 1 - number


@sweep("kind", _TYPES)
@_TARGETS
def test_rows_are_filled_with_an_element(kind: Scalar, target: Target) -> None:
    source, length = Value((_ROWS,), kind), 8 * _LENGTH
    row, column = axis(_ROWS), axis(length)
    bodies: list[Expression] = [load(source, (row,)), constant(1, kind)]
    for body in bodies:
        kernel = Kernel(output=Value((_ROWS, length), kind), axes=(row, column), body=body)
        inputs = {value: _bytes(value) for value in kernel.inputs}
        assert ("rep stos" in _check(kernel, inputs, target)) == has_block_moves(target)


@_TARGETS
def test_blocks_longer_than_one_instruction_moves(target: Target) -> None:
    source = Value((250_001,), Scalar.INT8)
    at = axis(250_001)
    kernel = Kernel(output=Value((250_001,), Scalar.INT8), axes=(at,), body=load(source, (at,)))
    _check(kernel, {source: _bytes(source)}, target)
    _check(replace(kernel, body=constant(-3, Scalar.INT8)), {}, target)


def test_short_rows_are_not_moved_as_blocks() -> None:
    source = Value((64, 500), Scalar.INT32)
    row, column = axis(64), axis(499)
    kernel = Kernel(
        output=Value((64, 499), Scalar.INT32), axes=(row, column), body=load(source, (row, column))
    )
    assert "rep movsb" not in render(kernel, TARGETS["avx512"]).text
