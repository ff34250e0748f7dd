from collections.abc import Sequence

import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions, FeatureLevel, Lifetime, OperandType
from neurald.hal.operations.machinery.signature import (
    Binding,
    Form,
    Match,
    MatchKey,
    Row,
    bind,
    bound,
    layout,
    row,
    scalar,
    tensor,
)
from neurald.hal.records import replace

FLOAT32, FLOAT16, INT32 = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_INT32,
)
ROWS = (
    row(FeatureLevel.LEVEL_1, T=FLOAT32, B=FLOAT32),
    row(FeatureLevel.LEVEL_3, T=FLOAT16, B=FLOAT16),
    row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_QUANT8_ASYMM_SIGNED, B=INT32),
)
FORM = Form(
    inputs=(
        tensor("input", rank=(1, 4)),
        tensor("bias", "B", rank=1),
        tensor("axes", INT32, rank=1, optional=True),
        scalar("activation"),
        layout(),
    ),
    outputs=(tensor("output", rank=(1, 4)),),
)
BY_SCALE = Form(
    inputs=(tensor("input"), scalar("scale", OperandType.FLOAT32)),
    outputs=(tensor("output"),),
    level=FeatureLevel.LEVEL_2,
)
VARIADIC = Form(
    inputs=(tensor("inputs", variadic=True), scalar("axis")),
    outputs=(tensor("output"),),
)
SPLIT = Form(
    inputs=(tensor("input"), scalar("count", constant=True)),
    outputs=(tensor("outputs", variadic=True),),
)


def operand(
    operand_type: OperandType, *dimensions: int, lifetime: Lifetime = Lifetime.TEMPORARY_VARIABLE
) -> Operand:
    return Operand(type=operand_type, dimensions=dimensions, lifetime=lifetime)


SCALAR = operand(OperandType.INT32, lifetime=Lifetime.CONSTANT_COPY)
OMITTED = operand(INT32, lifetime=Lifetime.NO_VALUE)
FLAG = operand(OperandType.BOOL, lifetime=Lifetime.CONSTANT_COPY)


def match(
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    *forms: Form,
    rows: Sequence[Row] = ROWS,
    values_known: bool = True,
) -> Binding:
    operation = Operation(
        type=OperationType.ADD,
        inputs=tuple(range(len(inputs))),
        outputs=tuple(range(len(inputs), len(inputs) + len(outputs))),
    )
    return bind(operation, [*inputs, *outputs], forms, rows, values_known=values_known)


def plain(operand_type: OperandType = FLOAT32, bias: OperandType = FLOAT32) -> list[Operand]:
    return [operand(operand_type, 2, 3), operand(bias, 3), operand(INT32, 1), SCALAR]


def test_operands_are_bound_by_name() -> None:
    binding = match(plain(), [operand(FLOAT32, 2, 3)], FORM)
    assert binding.type is OperationType.ADD
    assert binding.form is FORM
    assert binding.row is ROWS[0]
    assert binding.level is FeatureLevel.LEVEL_1
    assert binding.inputs == {"input": (0,), "bias": (1,), "axes": (2,), "activation": (3,)}
    assert binding.outputs == {"output": (4,)}


def test_the_level_is_the_highest_of_all_parts() -> None:
    output = operand(FLOAT32, 2)
    assert match([*plain(), FLAG], [output], FORM).level is FeatureLevel.LEVEL_3
    assert match(plain(FLOAT16, FLOAT16), [operand(FLOAT16, 2)], FORM).level is FeatureLevel.LEVEL_3
    scale = operand(OperandType.FLOAT32)
    assert match([operand(FLOAT32, 2), scale], [output], BY_SCALE).level is FeatureLevel.LEVEL_2
    signed = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    assert match([*plain(signed, INT32), FLAG], [operand(signed, 1)], FORM).level is FeatureLevel.LEVEL_4


def test_unspecified_rank_needs_level_3() -> None:
    unranked = Operand(type=FLOAT32, dimensions=None)
    binding = match([unranked, *plain()[1:]], [operand(FLOAT32, 2)], FORM)
    assert binding.level is FeatureLevel.LEVEL_3
    assert match([operand(FLOAT32, 0, 0), *plain()[1:]], [unranked], FORM).level is FeatureLevel.LEVEL_1


def test_the_matching_form_is_selected() -> None:
    scale = operand(OperandType.FLOAT32)
    by_size = Form(inputs=(tensor("input"), scalar("size")), outputs=(tensor("output"),))
    data, output = operand(FLOAT32, 2), operand(FLOAT32, 2)
    assert match([data, scale], [output], by_size, BY_SCALE).form is BY_SCALE
    assert match([data, SCALAR], [output], by_size, BY_SCALE).form is by_size


def test_variadic_inputs_and_outputs() -> None:
    data = operand(FLOAT32, 2)
    binding = match([data, data, data, SCALAR], [data], VARIADIC)
    assert binding.inputs == {"inputs": (0, 1, 2), "axis": (3,)}
    binding = match([data, SCALAR], [data, data], SPLIT)
    assert binding.outputs == {"outputs": (2, 3)}


def test_counts_may_be_listed() -> None:
    form = Form(
        inputs=(tensor("input"), scalar("x", default=1), scalar("y", default=1)),
        outputs=(tensor("output"),),
        counts=(1, 3),
    )
    data = operand(FLOAT32, 2)
    assert match([data], [data], form).inputs == {"input": (0,)}
    assert match([data, SCALAR, SCALAR], [data], form).inputs["y"] == (2,)
    with pytest.raises(BadData, match=r"ADD has 2 inputs and 1 output; 1 or 3 inputs and 1 output"):
        match([data, SCALAR], [data], form)


def test_optional_operands_may_be_omitted() -> None:
    inputs = [*plain()[:2], OMITTED, SCALAR]
    assert match(inputs, [operand(FLOAT32, 2)], FORM).inputs["axes"] == (2,)
    inputs[1] = OMITTED
    with pytest.raises(BadData, match=r"operand 1 \(bias of ADD\) is omitted; it is not optional"):
        match(inputs, [operand(FLOAT32, 2)], FORM)


def test_what_was_found_before_ranks_of_results_were_known_must_have_these() -> None:
    of_vectors, of_matrices = (
        Form(inputs=(tensor("input"),), outputs=(tensor("output", rank=rank),)) for rank in (1, 2)
    )
    known: dict[MatchKey, Match | None] = {}
    for result, form in (
        (Operand(type=FLOAT32, dimensions=None), of_vectors),
        (operand(FLOAT32, 6), of_vectors),
        (operand(FLOAT32, 2, 3), of_matrices),
        (operand(FLOAT32, 1, 2, 3), None),
    ):
        found = bound(
            Operation(type=OperationType.ADD, inputs=(0,), outputs=(1,)),
            [operand(FLOAT32, 2, 3), result],
            (of_vectors, of_matrices),
            ROWS,
            known=known,
        )
        assert (None if found is None else found.form) is form


@sweep(
    "lifetimes",
    [
        (Lifetime.TEMPORARY_VARIABLE, Lifetime.CONSTANT_POOL, Lifetime.CONSTANT_COPY),
        (Lifetime.CONSTANT_COPY, Lifetime.SUBGRAPH_INPUT, Lifetime.CONSTANT_POOL),
        (Lifetime.NO_VALUE, Lifetime.SUBGRAPH_OUTPUT, Lifetime.CONSTANT_COPY),
        (Lifetime.CONSTANT_POOL, Lifetime.NO_VALUE, Lifetime.SUBGRAPH),
    ],
)
def test_operations_that_were_bound_before_are_bound_like_new_ones(lifetimes: Sequence[Lifetime]) -> None:
    form = Form(
        inputs=(tensor("input"), scalar("count", constant=True)), outputs=(tensor("output", optional=True),)
    )
    known: dict[MatchKey, Match | None] = {}
    for lifetime in lifetimes:
        for place in range(3):
            operands = [operand(FLOAT32, 2), SCALAR, operand(FLOAT32, 2)]
            operands[place] = replace(operands[place], lifetime=lifetime)
            operation = Operation(type=OperationType.ADD, inputs=(0, 1), outputs=(2,))
            found = [bound(operation, operands, (form,), ROWS, known=each) for each in (known, None)]
            assert found[0] == found[1]


def test_constants_are_required_once_values_are_known() -> None:
    data = operand(FLOAT32, 2)
    late = operand(OperandType.INT32)
    with pytest.raises(BadData, match=r"operand 1 \(count of ADD\) is not a constant; it must be one"):
        match([data, late], [data], SPLIT)
    assert match([data, late], [data], SPLIT, values_known=False).inputs["count"] == (1,)


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
