"""Operations on the first tier give the results of their references, also for special numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results

from neurald.hal.errors import Error
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.service.conformance.cases.case import Case, generate, signatures
from neurald.service.conformance.cases.runner import first_wrong_output

#: Parts into which the rows of types are divided.
_PARTS = 4
#: Numbers that functions may treat in their own way. Sums and products of them are exact, or
#: infinite.
_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 16384.0)
_KINDS = "fiu"
#: Operations with inputs that decide the shape of the output.
_OF_INPUTS = frozenset(
    [
        "RESHAPE",
        "SQUEEZE",
        "TILE",
        "TFLITE_BROADCAST_TO",
        "TFLITE_EXPAND_DIMS",
        "TFLITE_FILL",
        "TFLITE_ONE_HOT",
        "TFLITE_PAD",
        "TFLITE_RESHAPE",
        "TFLITE_RESIZE_BILINEAR",
        "TFLITE_RESIZE_NEAREST_NEIGHBOR",
        "TFLITE_SLICE",
        "TFLITE_SQUEEZE",
        "TFLITE_STRIDED_SLICE",
        "TFLITE_TILE",
        "TFLITE_TOPK_V2",
        "TFLITE_UNSORTED_SEGMENT_MAX",
        "TFLITE_UNSORTED_SEGMENT_SUM",
    ]
)


def with_special_numbers(array: Array, rng: np.random.Generator) -> Array:
    """Returns an array in which half of the elements are special."""
    numbers: list[float | int] = list(_FLOATS)
    if array.dtype.kind != "f":
        ends = np.iinfo(array.dtype.name)
        numbers = [int(ends.min), int(ends.min) + 1, 0, 1, int(ends.max) - 1, int(ends.max)]
    special = np.array(numbers, array.dtype)[rng.integers(len(numbers), size=array.shape)]
    return np.where(rng.random(array.shape) < 0.5, special, array)


def special(case: Case) -> Case | None:
    """Returns a case with special numbers; None if the operation refuses them or there are none."""
    rng, values = np.random.default_rng(0), list(case.values)
    for index in case.free:
        value = values[index]
        if value is not None and value.dtype.kind in _KINDS and value.ndim:
            values[index] = with_special_numbers(value, rng)
    try:
        with np.errstate(all="ignore"):
            return case.changed(values=values)
    except Error:
        return None


def cases(part: int) -> Iterator[Case]:
    for number, signature in enumerate(signatures()):
        type_ = signature.definition.type.name
        # These draw numbers, or have indexes that limit how much they compute among their values.
        if number % _PARTS != part or any(word in type_ for word in ("RANDOM", "MULTINOMIAL", "SPARSE_TO")):
            continue
        case = generate(signature, number)
        if case is None or case.model.referenced:
            continue
        yield case
        other = special(case)
        if other is not None:
            yield other


def with_all_inputs(case: Case) -> Case:
    """Returns a case in which all tensors are inputs of the model."""
    given = [
        n for n, value in enumerate(case.values) if value is not None and case.operands[n].type.is_tensor
    ]
    return case.changed(model_inputs=given)


def decisions(case: Case, rng: np.random.Generator) -> list[Array]:
    """Returns inputs with other integers in place of those that may decide shapes."""
    found = []
    for index, array in zip(case.model_inputs, case.inputs, strict=True):
        if index in case.free or array.dtype.kind not in "iu":
            found.append(array)
            continue
        ends = np.iinfo(array.dtype.name)
        numbers = np.array([max(int(ends.min), -1), 0, 1, 2, 5, ends.max], array.dtype)
        found.append(np.where(rng.random(array.shape) < 0.3, array, rng.choice(numbers, array.shape)))
    return found


def refusal(prepared: Any, case: Case, inputs: list[Array]) -> type[Error] | None:
    """Returns the kind of error of an execution, if there is one."""
    try:
        with np.errstate(all="ignore"):
            results(prepared, case.model, inputs)
    except Error as error:
        return type(error)
    return None


def are_known(case: Case) -> bool:
    """Returns whether all shapes are known, and nothing is a string."""
    ends = [case.model.main.operands[n] for n in (*case.model.main.inputs, *case.model.main.outputs)]
    return all(each.is_fully_specified and each.type is not OperandType.TENSOR_STRING for each in ends)


@pytest.mark.parametrize("part", range(_PARTS))
def test_operations_give_the_results_of_references(part: int) -> None:
    wrong, count = [], 0
    for case in cases(part):
        if not are_known(case):
            continue
        count += 1
        with np.errstate(all="ignore"):
            found = results(prepared(case.model, TARGETS_HERE[-1], threads=2), case.model, list(case.inputs))
        _, text = first_wrong_output(case, found)
        if text:
            wrong.append(f"{case.name}: {text}")
    assert wrong == []
    assert count > 500


def test_inputs_that_contradict_declared_shapes_are_refused() -> None:
    wrong, refused = [], 0
    for number, signature in enumerate(signatures()):
        if signature.definition.type.name not in _OF_INPUTS or number % 4:
            continue
        drawn = generate(signature, number)
        if drawn is None:
            continue
        case = with_all_inputs(drawn)
        if not are_known(case):
            continue
        found, reference = prepared(case.model, TARGETS_HERE[-1]), ReferenceModel(case.model)
        for seed in range(4):
            inputs = decisions(case, np.random.default_rng(seed))
            expected = refusal(reference, case, inputs)
            refused += expected is not None
            if refusal(found, case, inputs) is not expected:
                wrong.append(f"{case.name}, seed {seed}: {expected}")
    assert wrong == []
    assert refused > 100
