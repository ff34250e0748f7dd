"""Segments of operations that are compiled together, and their models."""

from collections.abc import Sequence

import numpy as np
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.parts.segment import Segment, segments, sub_model
from neurald.hal.model.types import Lifetime

FLOAT = nd.OperandType.TENSOR_FLOAT32


def chain(count: int) -> nd.Model:
    """Returns a chain of additions of a constant."""
    builder = nd.ModelBuilder()
    first, one = builder.add_operand(FLOAT, (2,)), builder.add_operand(FLOAT, (2,))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    builder.set_operand_value(one, np.ones(2, np.float32))
    total = first
    for _ in range(count):
        output = builder.add_operand(FLOAT, (2,))
        builder.add_operation(nd.OperationType.ADD, [total, one, none], [output])
        total = output
    builder.identify_inputs_and_outputs([first], [total])
    return builder.finish()


def parallel() -> nd.Model:
    """Returns alternating RELU and TANH of the input, with the last two added."""
    builder = nd.ModelBuilder()
    source = builder.add_operand(FLOAT, (2,))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    results = []
    for kind in (nd.OperationType.RELU, nd.OperationType.TANH) * 2:
        results.append(builder.add_operand(FLOAT, (2,)))
        builder.add_operation(kind, [source], [results[-1]])
    output = builder.add_operand(FLOAT, (2,))
    builder.add_operation(nd.OperationType.ADD, [*results[2:], none], [output])
    builder.identify_inputs_and_outputs([source], [output, results[0]])
    return builder.finish()


@sweep(
    ("native", "expected"),
    [
        ((True, True, True), [((0, 1, 2), True)]),
        ((False, True, True), [((0,), False), ((1, 2), True)]),
        ((True, False, True), [((0,), True), ((1,), False), ((2,), True)]),
        ((False, False, False), [((0, 1, 2), False)]),
    ],
)
def test_chains(native: Sequence[bool], expected: Sequence[tuple[tuple[int, ...], bool]]) -> None:
    assert segments(chain(3).main, native) == [
        Segment(operations=operations, is_native=is_native) for operations, is_native in expected
    ]


def positions(model: nd.Model, kind: nd.OperationType) -> tuple[int, ...]:
    return tuple(n for n, operation in enumerate(model.main.operations) if operation.type is kind)


def test_independent_operations_are_grouped() -> None:
    model = parallel()
    tanh = positions(model, nd.OperationType.TANH)
    others = tuple(sorted({*range(5)} - {*tanh}))
    for native, first in ((others, tanh), (tanh, tanh)):
        found = segments(model.main, [position in native for position in range(5)])
        assert [segment.operations for segment in found] == [first, others]


def test_models_of_segments() -> None:
    model = parallel()
    relu, add = positions(model, nd.OperationType.RELU), positions(model, nd.OperationType.ADD)
    part = sub_model(model, model.main, relu)
    assert part.main.inputs == model.main.inputs
    outputs = tuple(model.main.operations[position].outputs[0] for position in relu)
    assert part.main.outputs == outputs
    assert [part.main.operands[index].lifetime for index in outputs] == [Lifetime.SUBGRAPH_OUTPUT] * 2
    last = sub_model(model, model.main, add)
    assert last.main.inputs == model.main.operations[add[0]].inputs[:2]
    assert last.main.outputs == model.main.operations[add[0]].outputs


def test_values_inside_a_segment_are_temporary() -> None:
    model = chain(3)
    part = sub_model(model, model.main, (0, 1))
    inside = model.main.operations[0].outputs[0]
    assert part.main.operands[inside].lifetime is Lifetime.TEMPORARY_VARIABLE
    assert part.main.outputs == model.main.operations[1].outputs
