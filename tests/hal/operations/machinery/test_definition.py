"""Rules of all definitions: limits of outputs, numbers of enumerations."""

import pytest
from support.operations.single_operation import call_of, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS, WIDER
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.records import replace

FLOAT = OperandType.TENSOR_FLOAT32
CALL = call_of(OperationType.TILE, [given(FLOAT, [[1.0, 2.0]]), ints(1, 1)], wanted(FLOAT))


def with_output(shape: tuple[int, ...]) -> Definition:
    """Returns TILE with a rule that infers that shape."""
    return replace(DEFINITIONS[OperationType.TILE], shape=lambda _: (shape,))


@sweep("shape", [(2**30 - 1,), (0, 2**29), (), (1,) * 16, (0, 0, 0)])
def test_allowed_output_shapes(shape: tuple[int, ...]) -> None:
    assert with_output(shape).output_shapes(CALL) == (shape,)


@sweep(
    ("shape", "message"),
    [
        (
            (2**30,),
            r"operand 2 \(output of TILE\) would have shape \[1073741824\], more than 2\^32 - 1 bytes",
        ),
        ((2**31, 2**31, 2**31), "more than"),
        ((0, 2**31, 2**31), "more than"),
        ((1,) * 17, "would have rank 17; at most 16 is allowed"),
    ],
)
def test_refused_output_shapes(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        with_output(shape).output_shapes(CALL)


@sweep(("number", "message"), [(4, "is 4; 0 .NONE"), (-1, "is -1")])
def test_invalid_activation_numbers(number: int, message: str) -> None:
    inputs = [given(FLOAT, [1.0]), given(FLOAT, [1.0]), *scalars(number)]
    call = call_of(OperationType.ADD, inputs, wanted(FLOAT))
    with pytest.raises(BadData, match=message):
        DEFINITIONS[OperationType.ADD].check(call)


def test_wider_operations_belong_to_the_extension() -> None:
    assert WIDER
    for narrow, wider in WIDER.items():
        assert narrow in DEFINITIONS
        assert wider.type.name.startswith("TFLITE_")


def test_wider_operations_calculate_with_the_same_inputs() -> None:
    """Otherwise models whose inputs other processes hold would be copied, or run more slowly."""
    wider = {name: each for name, each in DEFINITIONS.items() if each.widens is not None}
    different = {
        name
        for name, each in wider.items()
        if each.widens is not None and each.arithmetic != DEFINITIONS[each.widens].arithmetic
    }
    # Quantised values are checked not to be negative.
    assert different == {OperationType.TFLITE_RSQRT, OperationType.TFLITE_SQRT}


def test_arithmetic_inputs_are_inputs() -> None:
    for each in DEFINITIONS.values():
        names = {parameter.name for form in each.forms for parameter in form.inputs}
        assert each.arithmetic <= names
