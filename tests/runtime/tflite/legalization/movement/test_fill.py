import numpy as np
import pytest
from support.tflite.operator import Load, fixed, shaped
from support.tflite.results import DTYPES, check, counted


@pytest.mark.parametrize("kind", ["FLOAT32", "INT32", "INT64", "BOOL"])
def test_fill_range_and_zeros(load: Load, kind: str) -> None:
    model = load("FILL", (fixed([2, 3], "INT64"), fixed(1, kind)), shaped(1, 1, type_=kind))
    check(model, np.full((2, 3), 1, DTYPES[kind]))
    model = load("ZEROS_LIKE", (shaped(2, 3, type_=kind),), shaped(2, 3, type_=kind))
    check(model, np.zeros((2, 3), DTYPES[kind]), counted(kind, 2, 3))
    if kind != "BOOL":
        ends = [shaped(type_=kind, has_rank=True) for _ in range(3)]
        model = load("RANGE", ends, shaped(1, type_=kind))
        check(model, np.arange(1, 9, 3).astype(DTYPES[kind]), 1, 9, 3)
