"""Errors name the operand that does not fit, and what was expected."""

import pytest
from support.operations.signatures import (
    BY_SCALE,
    FLAG,
    FLOAT16,
    FLOAT32,
    FORM,
    INT32,
    SPLIT,
    VARIADIC,
    match,
    operand,
    plain,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import Dimensions, OperandType
from neurald.hal.operations.machinery.signature import Form, scalar, tensor


@sweep(
    ("inputs", "outputs", "forms", "message"),
    [
        (3, 1, (FORM,), r"ADD has 3 inputs and 1 output; 4 or 5 inputs and 1 output are expected"),
        (4, 2, (FORM, BY_SCALE), r"ADD has 4 inputs and 2 outputs; 2, 4 or 5 inputs and 1 output"),
        (1, 1, (VARIADIC,), r"ADD has 1 input and 1 output; 2 or more inputs and 1 output"),
        (2, 0, (SPLIT,), r"ADD has 2 inputs and 0 outputs; 2 inputs and 1 or more outputs"),
    ],
)
def test_wrong_counts(inputs: int, outputs: int, forms: tuple[Form, ...], message: str) -> None:
    data = operand(FLOAT32, 2)
    with pytest.raises(BadData, match=message):
        match([data] * inputs, [data] * outputs, *forms)


@sweep(
    ("position", "wrong", "message"),
    [
        (
            0,
            INT32,
            r"operand 0 \(input of ADD\) has type TENSOR_INT32; TENSOR_FLOAT32 or TENSOR_FLOAT16 or "
            r"TENSOR_QUANT8_ASYMM_SIGNED is expected",
        ),
        (
            1,
            FLOAT16,
            r"operand 1 \(bias of ADD\) has type TENSOR_FLOAT16; TENSOR_FLOAT32 is expected with the types "
            r"of the other operands",
        ),
        (2, FLOAT32, r"operand 2 \(axes of ADD\) has type TENSOR_FLOAT32; TENSOR_INT32 is expected"),
        (3, INT32, r"operand 3 \(activation of ADD\) has type TENSOR_INT32; INT32 is expected"),
        (4, INT32, r"operand 4 \(nchw of ADD\) has type TENSOR_INT32; BOOL is expected"),
        (5, FLOAT16, r"operand 5 \(output of ADD\) has type TENSOR_FLOAT16; .* is expected with the types"),
    ],
)
def test_wrong_types(position: int, wrong: OperandType, message: str) -> None:
    operands = [*plain(), FLAG, operand(FLOAT32, 2)]
    operands[position] = operand(wrong, 1)
    with pytest.raises(BadData, match=message):
        match(operands[:5], operands[5:], FORM)


@sweep(
    ("position", "dimensions", "message"),
    [
        (0, (), r"operand 0 \(input of ADD\) has rank 0; a rank from 1 to 4 is expected"),
        (0, (1,) * 5, r"operand 0 \(input of ADD\) has rank 5; a rank from 1 to 4 is expected"),
        (1, (1, 1), r"operand 1 \(bias of ADD\) has rank 2; rank 1 is expected"),
        (0, None, ""),
        (0, (0, 0, 0, 0), ""),
    ],
)
def test_ranks(position: int, dimensions: Dimensions, message: str) -> None:
    inputs = plain()
    inputs[position] = Operand(type=inputs[position].type, dimensions=dimensions)
    output = operand(FLOAT32, 2)
    if not message:
        match(inputs, [output], FORM)
        return
    with pytest.raises(BadData, match=message):
        match(inputs, [output], FORM)


def test_errors_describe_the_closest_form() -> None:
    by_size = Form(inputs=(tensor("input", rank=4), scalar("size")), outputs=(tensor("output"),))
    data = operand(FLOAT32, 2)
    with pytest.raises(BadData, match=r"operand 2 \(output of ADD\) has type TENSOR_INT32"):
        match([data, operand(OperandType.FLOAT32)], [operand(INT32, 2)], by_size, BY_SCALE)


def test_errors_say_what_differs_from_the_types_that_most_operands_have() -> None:
    form = Form(
        inputs=(tensor("input", rank=3), tensor("bias", "B", rank=1)),
        outputs=(tensor("output", rank=3),),
    )
    signed = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    with pytest.raises(BadData, match=r"operand 0 \(input of ADD\) has rank 2; rank 3 is expected"):
        match([operand(signed, 2, 2), operand(INT32, 2)], [operand(signed, 2, 2, 2)], form)
