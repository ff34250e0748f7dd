"""Kernels that find positions, distinct elements and keys give the interpreter's numbers."""

import numpy as np
import pytest
from support.compiler.graphs import random_array
from support.cpu.procedures import TARGETS, case_of, expect_same

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.algorithm import Distinct, KeySearch, Positions
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target

generator = np.random.default_rng(6)

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
_every_kind = pytest.mark.parametrize("kind", [each for each in Scalar if each is not Scalar.INDEX])


def _rows(kind: Scalar) -> list[Array]:
    """Returns rows of several lengths with equal elements, zeros and, for floats, -0.0 and NaN."""
    rows = [random_array(generator, (length,), kind) for length in (0, 1, 2, 9, 64, 1000)]
    for row in rows:
        if kind.is_float:
            row[:] = np.round(row * 4)
            row[generator.random(row.shape) < 0.1] = np.nan
            row[generator.random(row.shape) < 0.1] = -0.0
        row[generator.random(row.shape) < 0.3] = 0
    rows += [np.zeros(5, kind.dtype), np.ones(5, kind.dtype)]
    if kind.size_bytes > 1 and not kind.is_float:
        # All different; they collide in the lowest bits.
        rows.append((np.arange(300) * 64).astype(kind.dtype))
    return rows


def _same_positions(result: Array, expected: Array) -> None:
    count = expected[-1]
    assert result[-1] == count
    np.testing.assert_array_equal(result[:count], expected[:count])


@_every_kind
def test_positions(kind: Scalar, target: Target) -> None:
    cases = [case_of(Positions(), row, output=(len(row) + 1,)) for row in _rows(kind)]
    expect_same(cases, target, _same_positions)


@_every_kind
def test_distinct(kind: Scalar, target: Target) -> None:
    expect_same([case_of(Distinct(), row, output=(2 * len(row) + 1,)) for row in _rows(kind)], target)


def _searches(kind: Scalar) -> list[tuple[Array, Array]]:
    """Returns rows of keys, in order and not, some of them equal, and keys to find in them."""
    highest = (1 << (8 * kind.size_bytes - 1)) - 1
    lowest = -highest - 1
    found: list[tuple[Array, Array]] = []
    for count in (1, 2, 7, 8, 9, 16, 17, 33, 64, 100, 1000):
        keys = np.sort(generator.integers(-count, count, count)).astype(kind.dtype)
        ends = [keys[0], keys[-1], lowest, highest]
        lookups = np.array([*ends, *generator.integers(-count - 2, count + 2, 40)], kind.dtype)
        rows = [keys, np.unique(keys), generator.permutation(keys)]
        for at in {0, count // 2, count - 1}:
            # One key that is less than the one before it.
            rows.append(keys.copy())
            rows[-1][at] = lowest
        rows.append(np.array([lowest, *keys[1:-1], highest], kind.dtype))
        found += [(row, lookups[:length]) for row in rows for length in (1, 15, 44)]
    return found


@pytest.mark.parametrize("kind", [Scalar.INT32, Scalar.INT64])
def test_keys(kind: Scalar, target: Target) -> None:
    cases = [case_of(KeySearch(), *each, output=each[1].shape) for each in _searches(kind)]
    expect_same(cases, target)
