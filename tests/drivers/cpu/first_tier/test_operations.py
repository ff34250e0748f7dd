"""Operations on the first tier give the results of their references, also for special numbers."""

from collections.abc import Iterator

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results

from neurald.hal.errors import Error
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.service.conformance.cases.case import Case, generate, signatures
from neurald.service.conformance.cases.runner import first_wrong_output

#: Parts into which the rows of types are divided.
_PARTS = 4
#: Numbers that functions may treat in their own way. Sums and products of them are exact, or infinite.
_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 16384.0)
_KINDS = "fiu"


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
