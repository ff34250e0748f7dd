"""Kernels that draw classes give the interpreter's."""

import numpy as np
import pytest
from support.cpu.procedures import TARGETS, Case, case_of, expect_same

from neurald.drivers.compiler.ir.algorithm import Sampling
from neurald.drivers.cpu.target.target import Target

generator = np.random.default_rng(8)


def _case(rows: int, classes: int, samples: int) -> Case:
    weights, points = generator.random((rows, classes)), generator.random((rows, samples))
    weights[generator.random(weights.shape) < 0.3] = 0
    points[:, :1] = 0
    points[:, -1:] = 1  # beyond the last class
    return case_of(Sampling(), weights, points, output=points.shape)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_classes(target: Target) -> None:
    shapes = ((1, 1, 1), (3, 7, 50), (2, 64, 9), (1, 1001, 300))
    cases = [_case(*shape) for shape in shapes]
    for numbers in ([0.0, 0.0], [5e-324, 0.0, 5e-324]):
        cases.append(case_of(Sampling(), np.array([numbers]), np.array([[0, 0.5, 1]]), output=(1, 3)))
    expect_same(cases, target)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_weights_that_are_no_numbers_give_classes(target: Target) -> None:
    def compare(result: np.ndarray, _: np.ndarray) -> None:
        assert ((result >= 0) & (result < 9)).all()

    weights = generator.random((2, 9))
    weights[0, 4], weights[1, 4] = np.nan, np.inf
    points = np.array([[0, 0.5, np.nan, np.inf, -np.inf, 7]] * 2)
    expect_same([case_of(Sampling(), weights, points, output=points.shape)], target, compare)
