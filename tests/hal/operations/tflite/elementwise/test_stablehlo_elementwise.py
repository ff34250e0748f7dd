import numpy as np
import pytest
from support.operations.single_operation import evaluate, given, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

ORDERED = tuple(kind for kind in ELEMENTS if kind.dtype.kind != "c")


@sweep("kind", ORDERED)
@sweep(
    ("name", "function"),
    [("ADD", np.add), ("MULTIPLY", np.multiply), ("MAXIMUM", np.maximum), ("MINIMUM", np.minimum)],
)
def test_raw_numbers_wrap_around(kind: OperandType, name: str, function: np.ufunc) -> None:
    x, y = np.array([100, 3, 0]).astype(kind.dtype), np.array([100, 2, 1]).astype(kind.dtype)
    operation = OperationType[f"TFLITE_STABLEHLO_{name}"]
    got = evaluate(operation, (given(kind, x, 0.5), given(kind, y, 2.0)), wanted(kind, 4.0))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, function(x, y))
    with pytest.raises(BadData, match="is expected"):
        evaluate(operation, (given(kind, x, 0.5), given(kind, y[:1], 0.5)), wanted(kind))
