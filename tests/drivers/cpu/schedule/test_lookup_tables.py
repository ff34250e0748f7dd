"""Lookup tables for functions of an 8-bit number give the same results with fewer operations."""

import numpy as np
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.expression import (
    Apply,
    Expression,
    Load,
    apply,
    axis,
    constant,
    load,
    maximum,
    minimum,
)
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.schedule.lookup_tables import use_lookup_tables
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.records import replace

_SHAPE = (5, 7)
#: A target whose registers cannot hold tables. `generic` is one of this machine's architecture.
_WIDE, _NARROW = TARGETS["avx512"], replace(TARGETS["generic"], machine="x86_64")


def _squashed(x: Expression, kind: Scalar = Scalar.INT8) -> Expression:
    """Returns an expensive function as an 8-bit number."""
    real = apply(Op.TANH, x.to(Scalar.FLOAT32) * 0.01) * 100 + 7
    low, high = (-128, 127) if kind is Scalar.INT8 else (0, 255)
    return minimum(maximum(apply(Op.ROUND_AWAY, real), float(low)), float(high)).to(kind)


def _tabulated(
    body: object, *values: Value, target: Target = _WIDE, requires: object = None
) -> tuple[Kernel, Kernel]:
    at = tuple(axis(length) for length in _SHAPE)
    element: Expression = body(at)  # type: ignore[operator]
    conditions = () if requires is None else ((requires(at), "wrong"),)  # type: ignore[operator]
    kernel = Kernel(output=Value(_SHAPE, element.type), axes=at, body=element, requirements=conditions)
    changed = use_lookup_tables(kernel, target)
    generator = np.random.default_rng(0)
    inputs = [
        generator.integers(0, 256, value.shape).astype(np.uint8).view(value.type.value) for value in values
    ]
    one, other = (
        evaluate_fused(
            FusedGraph(kernels=(each,), aliases={}, inputs=values, outputs=(each.output,)), inputs
        )[0]
        for each in (kernel, changed)
    )
    np.testing.assert_array_equal(one, other)
    return kernel, changed


def _ops(kernel: Kernel) -> set[Op]:
    return {each.op for each in walk(*kernel.roots) if isinstance(each, Apply)}


def _tables(kernel: Kernel) -> int:
    return sum(isinstance(each, Load) and each.value.shape == (256,) for each in walk(*kernel.roots))


@sweep("kind", [Scalar.INT8, Scalar.UINT8])
@sweep("result", [Scalar.INT8, Scalar.UINT8])
def test_a_function_of_one_number(kind: Scalar, result: Scalar) -> None:
    source = Value(_SHAPE, kind)
    _, changed = _tabulated(lambda at: _squashed(load(source, at), result), source)
    assert _ops(changed) == {Op.CONVERT}
    assert _tables(changed) == 1


def test_chained_functions_become_one_table() -> None:
    source = Value(_SHAPE, Scalar.INT8)
    _, changed = _tabulated(lambda at: _squashed(_squashed(_squashed(load(source, at)))), source)
    assert _tables(changed) == 1


def test_functions_of_two_numbers_are_computed() -> None:
    first, second = Value(_SHAPE, Scalar.INT8), Value(_SHAPE, Scalar.INT8)

    def body(at: tuple[Expression, ...]) -> Expression:
        both = _squashed(load(first, at)).to(Scalar.INT32) + _squashed(load(second, at)).to(Scalar.INT32)
        return _squashed(_squashed(both))

    _, changed = _tabulated(body, first, second)
    assert Op.TANH in _ops(changed)
    assert _tables(changed) == 3


def test_cheap_functions_are_computed() -> None:
    source = Value(_SHAPE, Scalar.INT8)
    kernel, changed = _tabulated(lambda at: maximum(load(source, at), 3), source)
    assert changed is kernel


def test_gathered_tables_must_save_more() -> None:
    source = Value(_SHAPE, Scalar.INT8)

    def body(at: tuple[Expression, ...]) -> Expression:
        return _squashed(load(source, at))

    kernel, changed = _tabulated(body, source, target=_NARROW)
    assert changed is kernel
    _, changed = _tabulated(lambda at: _squashed(_squashed(body(at))), source, target=_NARROW)
    assert _tables(changed) == 1


def test_longer_registers_save_more() -> None:
    """Requantisation costs less than a table with AVX2, which has to look up in sixteen parts."""
    source = Value(_SHAPE, Scalar.INT8)

    def body(at: tuple[Expression, ...]) -> Expression:
        scaled = apply(Op.ROUND_AWAY, load(source, at).to(Scalar.FLOAT32) * 0.3 + 4)
        return minimum(maximum(scaled, -128.0), 127.0).to(Scalar.INT32).to(Scalar.INT8)

    kernel, changed = _tabulated(body, source, target=TARGETS["avx2"])
    assert changed is kernel
    for name in ("avx512", "avx512vnni", "avx512vbmi", "avx512fp16", "amx"):
        assert _tables(_tabulated(body, source, target=TARGETS[name])[1]) == 1


def test_wide_results_are_computed_from_looked_up_numbers() -> None:
    source = Value(_SHAPE, Scalar.UINT8)
    _, changed = _tabulated(lambda at: _squashed(load(source, at)).to(Scalar.FLOAT32) * 0.3, source)
    assert _ops(changed) == {Op.CONVERT, Op.MULTIPLY}


def test_padding_is_looked_up_too() -> None:
    source = Value(_SHAPE, Scalar.INT8)

    def body(at: tuple[Expression, ...]) -> Expression:
        y, x = at
        return _squashed(load(source, (y - 1, x), y >= 1, 5))

    _, changed = _tabulated(body, source)
    assert _tables(changed) == 1


def test_requirements_are_looked_up_too() -> None:
    source = Value(_SHAPE, Scalar.INT8)
    _, changed = _tabulated(
        lambda at: load(source, at), source, requires=lambda at: _squashed(load(source, at)) >= -128
    )
    assert _tables(changed) == 1


@sweep("kind", [Scalar.INT8, Scalar.INT64, Scalar.FLOAT32])
def test_functions_of_constants_become_constants(kind: Scalar) -> None:
    numbers = np.arange(-3, 4).astype(kind.value)
    source, known = Value(_SHAPE, Scalar.INT8), Value((7,), kind, numbers)

    def body(at: tuple[Expression, ...]) -> Expression:
        return load(source, at).to(kind) + (load(known, at[1:]) * 3 - 2) * 5

    _, changed = _tabulated(body, source)
    assert _ops(changed) <= {Op.CONVERT, Op.ADD}
    assert known not in changed.inputs


def test_functions_of_constants_and_lengths_that_are_not_known_are_computed() -> None:
    scope = ExtentScope([9])
    (length,) = scope.symbols
    known, at = Value((7,), Scalar.INT32, np.arange(7, dtype=np.int32)), (axis(7),)
    body = minimum((load(known, at) * 3 - 2) * 5, constant(length - 1, Scalar.INT32))
    changed = use_lookup_tables(Kernel(output=Value((7,), Scalar.INT32), axes=at, body=body), _WIDE)
    assert Op.MINIMUM in _ops(changed)
    assert not scope.pins


@sweep("target", DIFFERENT, ids=lambda target: target.name)
@sweep("kind", [Scalar.INT8, Scalar.UINT8])
@sweep("length", [1, 3, 17, 64, 200, 5000])
def test_compiled_tables(length: int, kind: Scalar, target: Target) -> None:
    source, at = Value((length,), kind), (axis(length),)
    body = _squashed(_squashed(load(source, at), kind), kind)
    kernel = use_lookup_tables(Kernel(output=Value((length,), kind), axes=at, body=body), target)
    inputs = {source: np.random.default_rng(1).integers(0, 256, length).astype(np.uint8).view(kind.value)}
    inputs |= {value: value.constant for value in kernel.inputs if value.constant is not None}
    assert _tables(kernel) == 1
    want = interpreted(kernel, inputs)
    routine = render(kernel, target)
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, status = run(routine, inputs, target, at_start=at_start, splits=(1, 3), functions=functions)
        assert not status
        np.testing.assert_array_equal(got, want)


def test_tables_in_registers_have_a_maximum_size() -> None:
    source, at = Value((5000,), Scalar.INT8), (axis(5000),)
    kernel = Kernel(output=Value((5000,), Scalar.INT8), axes=at, body=_squashed(load(source, at)))
    assert render(use_lookup_tables(kernel, _WIDE), _WIDE).label == "128 elements at once"
