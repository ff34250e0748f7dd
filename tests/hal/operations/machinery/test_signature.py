"""Operations are bound to the form and the types that fit their operands."""

from collections.abc import Sequence

import pytest
from support.operations.signatures import (
    BY_SCALE,
    FLAG,
    FLOAT16,
    FLOAT32,
    FORM,
    INT32,
    OMITTED,
    ROWS,
    SCALAR,
    SPLIT,
    VARIADIC,
    match,
    operand,
    plain,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, Lifetime, OperandType
from neurald.hal.operations.machinery.signature import Form, Match, MatchKey, bound, scalar, tensor
from neurald.hal.records import replace


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
