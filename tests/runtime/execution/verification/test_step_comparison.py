import numpy as np
import pytest
from support.models.chains import chain
from support.models.graphs import graph

import neurald as nd
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.execution.verification.step_comparison import (
    StepComparison,
    has_undecided,
    may_be_compared,
)

RIGHT = np.array([[1.0, -2.0, 0.0, 1e-3]], np.float32)


def flipped(array: "np.ndarray", element: int, bit: int) -> "np.ndarray":
    found = array.copy()
    found.reshape(-1).view(f"u{array.itemsize}")[element] ^= 1 << bit
    return found


@pytest.mark.parametrize("bit", [20, 23, 30, 31])
def test_a_flipped_bit_beyond_rounding_is_a_certain_difference(bit: int) -> None:
    comparison = StepComparison(chain(["ADD"], size=4))
    difference = comparison.difference([RIGHT], [flipped(RIGHT, 1, bit)])
    assert difference is not None
    assert difference.is_certain
    assert "output 0: 1 of 4 elements of TENSOR_FLOAT32 differ, the first at 1" in difference.text


def test_rounding_is_no_difference() -> None:
    comparison = StepComparison(chain(["ADD"] * 30, size=4))
    assert comparison.difference([RIGHT], [RIGHT.copy()]) is None
    assert comparison.difference([RIGHT], [RIGHT + np.float32(2e-5)]) is None
    assert comparison.difference([RIGHT], [RIGHT + np.float32(1e-3)]) is not None
    nothing = np.array([[np.nan, np.inf, -np.inf, 0]], np.float32)
    assert comparison.difference([nothing], [nothing * 1]) is None
    assert comparison.difference([RIGHT], [nothing]) is not None
    assert comparison.difference([nothing], [RIGHT]) is not None


def test_relaxed_models_have_wider_bounds() -> None:
    found = RIGHT + np.float32(3e-3)
    assert StepComparison(chain(["ADD"], size=4)).difference([RIGHT], [found]) is not None
    assert StepComparison(chain(["ADD"], size=4, relaxed=True)).difference([RIGHT], [found]) is None


def model_of(lines: list[tuple[OperationType, str, str]], outputs: str, **types: OperandType) -> Model:
    return Model(main=graph("a b", lines, outputs, types=types), referenced=(), pools=())


def test_integers_are_equal_and_quantised_values_differ_by_one() -> None:
    integers = model_of(
        [(OperationType.ADD, "a b", "c")], "c", **dict.fromkeys("abc", OperandType.TENSOR_INT32)
    )
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert StepComparison(integers).difference([array], [array.copy()]) is None
    assert StepComparison(integers).difference([array], [flipped(array, 5, 0)]) is not None
    bytes_ = model_of(
        [(OperationType.ADD, "a b", "c")], "c", **dict.fromkeys("abc", OperandType.TENSOR_QUANT8_ASYMM)
    )
    array = array.astype(np.uint8)
    assert StepComparison(bytes_).difference([array], [flipped(array, 5, 0)]) is None
    assert StepComparison(bytes_).difference([array], [flipped(array, 5, 1)]) is not None


def test_decisions_by_rounded_values_are_uncertain() -> None:
    lines = [(OperationType.ADD, "a b", "c"), (OperationType.EQUAL, "c b", "d")]
    decided = model_of(lines, "c d", d=OperandType.TENSOR_BOOL8)
    assert has_undecided(decided)
    numbers = np.ones((2, 3), np.float32)
    right, wrong = np.ones((2, 3), bool), np.zeros((2, 3), bool)
    comparison = StepComparison(decided)
    difference = comparison.difference([numbers, right], [numbers, wrong])
    assert difference is not None
    assert not difference.is_certain
    difference = comparison.difference([numbers, right], [numbers + 1, wrong])
    assert difference is not None
    assert difference.is_certain
    # Its inputs are not rounded.
    alone = model_of([(OperationType.EQUAL, "a b", "d")], "d", d=OperandType.TENSOR_BOOL8)
    assert not has_undecided(alone)


def test_random_results_are_not_compared() -> None:
    assert may_be_compared(chain(["ADD"]))
    random = model_of([(OperationType.TFLITE_RANDOM_UNIFORM, "a", "c")], "c")
    assert not may_be_compared(random)
    strings = model_of([(OperationType.ADD, "a b", "c")], "c", a=nd.OperandType.TENSOR_STRING)
    assert not may_be_compared(strings)
