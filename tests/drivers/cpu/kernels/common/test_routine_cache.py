"""The cache of routines for equivalent kernels."""

from dataclasses import replace

import numpy as np
import pytest
from support.compiler.contractions import Case
from support.cpu.float_kernels import TARGETS, check, windows
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import constant
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common import routine_cache
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine

TARGET = next(iter(TARGETS.values()))
WEIGHTS = ((24, 1, 1, 12), (3, 3, 12))


def _routine(case: Case) -> Routine:
    routine = routine_for(case.kernel, TARGET)
    assert routine is not None
    return routine


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routine_cache, "_cache", {})


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
