"""Scatter kernels combine updates in order and stay inside their memory."""

import numpy as np
import pytest
from support.compiler.graphs import random_array
from support.cpu.procedures import TARGETS, Case, case_of, expect_same

from neurald.drivers.compiler.ir.algorithm import Scatter
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target

generator = np.random.default_rng(5)
#: Rows, elements per row, and updates: few and many, whole vectors and parts, one, and none.
SHAPES = ((5, 3, 9), (40, 1, 100), (3, 67, 11), (7, 16, 20), (2, 700, 3), (4, 5, 0), (1, 1, 1))
#: Nothing scatters to maxima of numbers only.
REDUCTIONS = (None, *(each for each in ReductionOp if each is not ReductionOp.MAXIMUM_NUMBER))

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)


def _case(
    kind: Scalar,
    shape: tuple[int, int, int],
    reduction: ReductionOp | None,
    *,
    index: Scalar = Scalar.INT32,
    has_base: bool = False,
) -> Case:
    rows, width, count = shape
    destinations = generator.integers(-2, rows + 2, count).astype(index.dtype)
    destinations[::5] = np.iinfo(index.value).min
    updates = random_array(generator, (count, width), kind)
    if kind.is_float:
        updates[generator.random(updates.shape) < 0.05] = np.nan
        updates[generator.random(updates.shape) < 0.05] = -np.inf
    base = (random_array(generator, (rows, width), kind),) if has_base else ()
    algorithm = Scatter(reduction=reduction, initial=1)
    return case_of(algorithm, destinations, updates, *base, output=(rows, width), kind=kind)


@pytest.mark.parametrize("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_updates(kind: Scalar, target: Target) -> None:
    boolean = (ReductionOp.ANY, ReductionOp.ALL)
    reductions = [each for each in REDUCTIONS if kind is Scalar.BOOL or each not in boolean]
    cases = [
        _case(kind, shape, reductions[number % len(reductions)], has_base=bool(number % 3))
        for number, shape in enumerate(SHAPES * 2)
    ]
    expect_same(cases, target)


def test_wide_destinations(target: Target) -> None:
    expect_same([_case(Scalar.FLOAT32, (5, 3, 9), ReductionOp.SUM, index=Scalar.INT64)], target)


def test_floats_are_added_in_order(target: Target) -> None:
    updates = np.array([[1e8], [1], [-1e8], [1]], np.float32)
    scatter = Scatter(reduction=ReductionOp.SUM)
    expect_same(
        [case_of(scatter, np.zeros(4, np.int32), updates, output=(1, 1), kind=Scalar.FLOAT32)], target
    )


def test_large_scatters_are_divided(target: Target) -> None:
    (routine,) = expect_same([_case(Scalar.FLOAT32, (37, 256, 5000), ReductionOp.SUM)], target)
    assert routine.work_items > 1


def test_short_rows_are_not_divided(target: Target) -> None:
    """Work items would examine the destinations of each other for as long as updates take."""
    (routine,) = expect_same([_case(Scalar.INT32, (3700, 1, 50_000), ReductionOp.MAXIMUM)], target)
    assert routine.work_items == 1
