"""Kernels that add hashes give the interpreter's sums, for keys of every length."""

import numpy as np
import pytest
from support.cpu.procedures import TARGETS, Case, case_of, expect_same

from neurald.drivers.compiler.ir.algorithm import HashSums
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target

generator = np.random.default_rng(10)


def _case(seeds: int, rows: int, size: int) -> Case:
    numbers = generator.integers(0, 1 << 32, seeds, np.uint32)
    content = generator.integers(0, 256, (rows, size), np.uint8)
    weights = generator.standard_normal(rows)
    return case_of(HashSums(), numbers, content, weights, output=(seeds,), kind=Scalar.FLOAT64)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_keys_of_every_length(target: Target) -> None:
    # Keys have four bytes more. Their hash differs from 8, 17, 33 and 65 bytes, and by blocks of
    # 64.
    sizes = (0, 1, 3, 4, 5, 11, 12, 13, 20, 28, 29, 40, 60, 61, 64, 123, 124, 125, 188, 189, 1000)
    expect_same([_case(3, 2, size) for size in sizes], target)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_weights_that_are_no_numbers(target: Target) -> None:
    graph, (seeds, rows, weights) = _case(2, 5, 9)
    for special in (np.nan, np.inf, 0.0):
        weights[2] = special
        expect_same([(graph, (seeds, rows, weights))], target)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_sums_are_rounded_in_order(target: Target) -> None:
    expect_same([_case(40, 300, 8), _case(1, 1, 16)], target)
