"""Kernels of running sums give the interpreter's sums."""

import numpy as np
import pytest
from support.cpu.procedures import TARGETS, Case, case_of, expect_same

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.algorithm import RunningSum
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

generator = np.random.default_rng(21)
RULES = [
    RunningSum(is_exclusive=is_exclusive, is_reverse=is_reverse)
    for is_exclusive in (False, True)
    for is_reverse in (False, True)
]
#: Rows shorter than a vector, of whole vectors and longer; neighbours of several vectors and none.
SHAPES = [(3, 1, 1), (2, 15, 1), (2, 16, 1), (2, 100, 1), (1, 7, 64), (2, 5, 3), (2, 40, 101), (1, 1, 9)]
SHAPES += [(2, 9, 15), (1, 5, 77)]


def _case(rule: RunningSum, values: Array) -> Case:
    return case_of(rule, values, output=values.shape, kind=Scalar.of(values.dtype))


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_integers(target: Target) -> None:
    expect_same(
        [
            _case(rule, generator.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape).astype(kind))
            for rule in RULES
            for shape in SHAPES
            for kind in (np.int32, np.int64)
        ],
        target,
    )


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_floats(target: Target) -> None:
    def close(found: Array, wanted: Array) -> None:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)

    cases = [
        _case(rule, generator.standard_normal(shape).astype(kind))
        for rule in RULES
        for shape in SHAPES
        for kind in (np.float32, np.float64)
    ]
    expect_same(cases, target, close)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_ordered_sums_round_as_one_after_another(target: Target) -> None:
    expect_same(
        [
            _case(replace(rule, is_ordered=True), generator.standard_normal(shape).astype(kind))
            for rule in RULES
            for shape in SHAPES
            for kind in (np.float32, np.float64)
        ],
        target,
        np.testing.assert_array_equal,
    )


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_special_numbers(target: Target) -> None:
    """A number only affects the sums that contain it, and the sum of negative zeros is one."""
    cases = []
    for rule in RULES:
        for at, special in ((0, np.inf), (17, np.nan), (39, -np.inf)):
            values = np.ones((1, 40, 1), np.float32)
            values[0, at] = special
            cases.append(_case(rule, values))
        if not rule.is_exclusive:
            cases.append(_case(rule, np.full((1, 40, 1), -0.0, np.float32)))

    def same(found: Array, wanted: Array) -> None:
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))

    expect_same(cases, target, same)
