"""Kernels that combine rows of a table give the interpreter's, up to rounding."""

import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close
from support.cpu.procedures import TARGETS, Case, case_of, expect_same

from neurald.drivers.compiler.ir.algorithm import CombinedRows
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target
from neurald.hal.operations.tflite.movement.sparse_embedding import Combiner

generator = np.random.default_rng(12)


def _case(combiner: Combiner, count: int, rows: int, width: int) -> Case:
    destinations = generator.integers(0, rows, count).astype(np.int32)
    destinations[count // 2 :].sort()
    lookups = generator.integers(0, 7, count).astype(np.int32)
    weights = generator.uniform(0.5, 2, count).astype(np.float32)
    table = generator.standard_normal((7, width)).astype(np.float32)
    inputs = destinations, lookups, weights, table
    return case_of(CombinedRows(combiner=combiner), *inputs, output=(rows, width), kind=Scalar.FLOAT32)


@pytest.mark.parametrize("combiner", list(Combiner), ids=lambda combiner: combiner.name)
@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_rows(target: Target, combiner: Combiner) -> None:
    shapes = ((0, 3, 4), (1, 1, 1), (9, 4, 3), (30, 5, 16), (50, 7, 67), (200, 3, 1))
    expect_same([_case(combiner, *shape) for shape in shapes], target, close)
