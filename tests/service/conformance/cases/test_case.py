"""Generated cases are valid and repeatable, and exist for every operation."""

import numpy as np
from support.sweeps import sweep

from neurald.hal.execution.output_comparison import describe_difference
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.validation.model_rules import validate_model
from neurald.service.conformance.cases.case import generate, signatures
from neurald.service.conformance.cases.mutation import mutations, request_mutations
from neurald.service.conformance.cases.runner import bind
from neurald.service.conformance.recipes.draw import Draw

#: Operations without random cases, which Android's records cover. Control flow and hash tables take
#: graphs and strings. The scales of a fully quantised LSTM depend on each other too much.
NOT_DRAWN = {"IF", "WHILE", "QUANTIZED_LSTM"}


def drawn(operation: OperationType) -> bool:
    return any(generate(each, seed) is not None for each in signatures((operation,)) for seed in range(4))


@sweep(
    "operation", [each for each in DEFINITIONS if not each.name.startswith("TFLITE_")], ids=lambda o: o.name
)
def test_every_operation_of_android_has_cases(operation: OperationType) -> None:
    assert drawn(operation) == (operation.name not in NOT_DRAWN)


def test_the_seed_determines_a_case() -> None:
    (signature, *_) = signatures((OperationType.CONV_2D,))
    first, again, other = (generate(signature, seed) for seed in (3, 3, 4))
    assert first is not None
    assert again is not None
    assert other is not None
    assert [value.tobytes() for value in first.inputs] == [value.tobytes() for value in again.inputs]
    assert first.model.main == again.model.main
    assert first.model.main != other.model.main


def test_shapes_are_varied() -> None:
    (signature, *_) = signatures((OperationType.ADD,))
    cases = [case for seed in range(60) if (case := generate(signature, seed)) is not None]
    shapes = [(case.inputs[0].shape, case.inputs[1].shape) for case in cases]
    assert any(first != second for first, second in shapes), "broadcasting"
    assert any(0 in case.expected[0].shape for case in cases), "no elements"
    assert len({len(case.expected[0].shape) for case in cases}) >= 4, "ranks"
    assert any(case.model.relaxed for case in cases)


def test_mutations_are_invalid() -> None:
    (signature, *_) = signatures((OperationType.CONV_2D,))
    case = generate(signature, 0)
    assert case is not None
    validate_model(case.model)
    changed = dict(mutations(case.model))
    assert len(changed) > 100
    assert len(dict(request_mutations(bind(case).request))) == 7


@sweep("kind", [each for each in OperandType if each.is_tensor and each.name != "TENSOR_STRING"])
def test_drawn_scalars_are_arrays(kind: OperandType) -> None:
    assert isinstance(Draw("rank 0").array(kind, ()), np.ndarray)


def test_sums_of_steps_are_exact() -> None:
    found = Draw("steps").array(OperandType.TENSOR_FLOAT32, (100,), 6.0, 0.125)
    assert found.std() > 3
    assert np.array_equal(found * 8, np.round(found * 8))
    assert not np.signbit(found[found == 0]).any(), "1 / -0 is another infinity"


@sweep(
    ("kind", "expected", "found", "relaxed", "is_correct"),
    [
        (OperandType.TENSOR_FLOAT32, 1.0, 1.0 + 1.05e-5, False, True),
        (OperandType.TENSOR_FLOAT32, 1.0, 1.0 + 1.2e-5, False, False),
        (OperandType.TENSOR_FLOAT32, 1.0, 1.009, True, True),
        (OperandType.TENSOR_FLOAT16, 1.0, 1.009, False, True),
        (OperandType.TENSOR_FLOAT16, 1.0, 1.02, False, False),
        (OperandType.TENSOR_FLOAT32, np.nan, np.nan, False, True),
        (OperandType.TENSOR_FLOAT32, np.inf, np.inf, False, True),
        (OperandType.TENSOR_FLOAT32, np.inf, 1.0, False, False),
        (OperandType.TENSOR_FLOAT32, 1.0, np.nan, False, False),
        (OperandType.TENSOR_QUANT8_ASYMM, 7, 8, False, True),
        (OperandType.TENSOR_QUANT8_ASYMM, 7, 9, False, False),
        (OperandType.TENSOR_INT32, 7, 8, False, False),
        (OperandType.TENSOR_INT64, 2**60, 2**60 + 1, False, False),
        (OperandType.TENSOR_BOOL8, True, False, False, False),
    ],
)
def test_tolerances(
    kind: OperandType, expected: object, found: object, relaxed: bool, is_correct: bool
) -> None:
    arrays = (np.array([value], kind.dtype) for value in (expected, found))
    assert (describe_difference(OperationType.ADD, kind, *arrays, relaxed=relaxed) == "") == is_correct


def test_different_shapes_are_reported() -> None:
    kind = OperandType.TENSOR_FLOAT32
    text = describe_difference(
        OperationType.ADD, kind, np.zeros((2, 1), np.float32), np.zeros(2, np.float32), relaxed=False
    )
    assert "[2]; expected [2, 1]" in text
