"""The cache of routines for equivalent kernels."""

import numpy as np
import pytest
from support.compiler.contractions import Case
from support.compiler.elementwise import interpreted
from support.cpu.float_kernels import TARGETS, check, windows
from support.cpu.native import run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import axis, constant, load, select
from neurald.drivers.compiler.ir.expression_nodes import Linear
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common import routine_cache
from neurald.drivers.cpu.kernels.select import generate, routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.hal.records import replace

TARGET = next(iter(TARGETS.values()))
WEIGHTS = ((24, 1, 1, 12), (3, 3, 12))


def _routine(case: Case) -> Routine:
    routine = routine_for(case.kernel, TARGET)
    assert routine is not None
    return routine


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routine_cache, "_cache", {})
    monkeypatch.setattr(routine_cache, "_repeated", {})


@sweep("weights", WEIGHTS)
def test_contents_of_constants_do_not_matter(weights: tuple[int, ...]) -> None:
    cases = [windows((1, 6, 7, 12), weights, pad=1) for _ in range(2)]
    changed = cases[1].kernel.contraction
    assert changed is not None
    known = changed.inputs[1].constant
    assert known is not None
    changed.inputs[1].constant = np.ascontiguousarray(known[..., ::-1])
    first, second = (_routine(case) for case in cases)
    assert first.text is second.text
    assert first.arguments[0] is cases[0].kernel.output
    assert second.arguments[0] is cases[1].kernel.output
    packed, others = (each.arguments[2].constant for each in (first, second))
    assert packed is not None
    assert others is not None
    assert not np.array_equal(packed, others)


@sweep("weights", WEIGHTS)
def test_everything_else_matters(weights: tuple[int, ...]) -> None:
    cases = [
        windows((1, 6, 7, 12), weights, pad=1),
        windows((1, 6, 7, 12), weights, pad=2),
        windows((1, 6, 8, 12), weights, pad=1),
        windows((2, 6, 7, 12), weights, pad=1),
        windows((1, 9, 9, 12), weights, pad=1, stride=2),
    ]
    check(cases, TARGET)
    kernels = [case.kernel for case in cases]
    kernels += [
        replace(kernels[0], body=kernels[0].body * constant(number, Scalar.FLOAT32)) for number in (2.0, 3.0)
    ]
    routines = [routine_for(kernel, TARGET) for kernel in kernels]
    assert len({each.text for each in routines if each is not None}) == len(kernels)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routine_cache, "_CACHE_SIZE", 2)
    cases = [windows((1, 6, width, 12), WEIGHTS[1], pad=1) for width in (5, 6, 7)]
    texts = [_routine(case).text for case in cases]
    assert len(routine_cache._cache) == 2
    assert _routine(cases[0]).text is not texts[0]
    assert _routine(cases[0]).text == texts[0]


def _interleaved(length: int, factor: float) -> Kernel:
    first, second = (Value((9, length), Scalar.FLOAT32) for _ in range(2))
    at = (axis(9), axis(2 * length))
    other = load(second, (at[0], at[1] // 2))
    body = select((at[1] % 2).equals(0), load(first, (at[0], at[1] // 2)), other) * factor
    return Kernel(output=Value((9, 2 * length), Scalar.FLOAT32), axes=at, body=body, operations=(length,))


def test_equal_kernels_without_contraction_are_generated_once() -> None:
    kernels = [_interleaved(20, 2.0), _interleaved(20, 2.0), _interleaved(20, 3.0), _interleaved(21, 2.0)]
    routines = [generate(kernel, TARGET) for kernel in kernels]
    assert routines[0].text is routines[1].text
    assert len({each.text for each in routines}) == 3
    for kernel, routine in zip(kernels, routines, strict=True):
        assert set(routine.arguments) == {kernel.output, *kernel.inputs}
        assert routine.operations == kernel.operations
    generator = np.random.default_rng(0)
    for kernel, routine in zip(kernels, routines, strict=True):
        inputs = {value: generator.standard_normal(value.shape).astype(np.float32) for value in kernel.inputs}
        got, _ = run(routine, inputs, TARGET)
        np.testing.assert_array_equal(got, interpreted(kernel, inputs))


def test_the_order_of_terms_does_not_matter() -> None:
    """It depends on where expressions are in memory."""
    routines = []
    for is_reversed in (False, True):
        at, value = (axis(9), axis(20)), Value((180,), Scalar.FLOAT32)
        place = at[0] * 20 + at[1]
        assert isinstance(place, Linear)
        if is_reversed:
            place = replace(place, terms=place.terms[::-1])
        body = load(value, (place,)) * 2.0
        kernel = Kernel(output=Value((9, 20), Scalar.FLOAT32), axes=at, body=body, operations=())
        routines.append(generate(kernel, TARGET))
    assert routines[0].text is routines[1].text
