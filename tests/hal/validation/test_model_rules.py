"""Every rule of `validate_model` and `validate_request`, on models that are built directly."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.graph import ChannelQuant, Location, Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import FeatureLevel, Lifetime, OperandType
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import MAX_DEPTH, validate_accepted, validate_model
from neurald.hal.validation.request_rules import merge_dimensions, validate_request

T = OperandType
FLOAT = T.TENSOR_FLOAT32
NONE = Operand(type=T.INT32, lifetime=Lifetime.CONSTANT_COPY, value=bytes(4))


def model(*, operand_type: OperandType = FLOAT, dimensions: tuple[int, ...] | None = (2, 3)) -> Model:
    """Returns a model: input, constant in a pool, activation, temporary, output; two additions."""
    constant = Operand(
        type=operand_type,
        dimensions=(2, 3),
        lifetime=Lifetime.CONSTANT_POOL,
        location=Location(pool=0, offset=0, length=6 * operand_type.dtype.itemsize),
    )
    plain = Operand(type=operand_type, dimensions=dimensions)
    return Model(
        main=Subgraph(
            operands=(
                replace(plain, lifetime=Lifetime.SUBGRAPH_INPUT),
                constant,
                NONE,
                plain,
                replace(plain, lifetime=Lifetime.SUBGRAPH_OUTPUT),
            ),
            operations=(
                Operation(type=OperationType.ADD, inputs=(0, 1, 2), outputs=(3,)),
                Operation(type=OperationType.ADD, inputs=(3, 1, 2), outputs=(4,)),
            ),
            inputs=(0,),
            outputs=(4,),
        ),
        pools=(HostMemory(np.zeros(64, np.uint8)),),
    )


def with_graph(base: Model, **changes: Any) -> Model:
    return replace(base, main=replace(base.main, **changes))


def with_operand(index: int, **changes: Any) -> Model:
    base = model()
    operands = list(base.main.operands)
    operands[index] = replace(operands[index], **changes)
    return with_graph(base, operands=tuple(operands))


def with_operation(index: int, **changes: Any) -> Model:
    base = model()
    operations = list(base.main.operations)
    operations[index] = replace(operations[index], **changes)
    return with_graph(base, operations=tuple(operations))


@sweep(
    ("valid", "level"),
    [
        (model(), FeatureLevel.LEVEL_1),
        (model(dimensions=(0, 3)), FeatureLevel.LEVEL_1),
        (model(dimensions=None), FeatureLevel.LEVEL_3),
        (model(operand_type=T.TENSOR_FLOAT16), FeatureLevel.LEVEL_3),
        (model(operand_type=T.TENSOR_INT32), FeatureLevel.LEVEL_4),
    ],
)
def test_valid_models_and_the_feature_level_they_need(valid: Model, level: FeatureLevel) -> None:
    assert validate_model(valid) is level


POOL = Location(pool=0, offset=0, length=24)
QUANT = ChannelQuant(dimension=0, scales=(0.5, 0.5))


@sweep(
    ("broken", "message"),
    [
        (with_operand(0, dimensions=(-1, 3)), "operand 0: dimensions"),
        (with_operand(0, dimensions=(1 << 33,)), "operand 0: dimensions"),
        (with_operand(0, dimensions=(1 << 20, 1 << 20)), "operand 0: .* bytes"),
        (with_operand(0, dimensions=(1,) * 17), "operand 0: rank 17"),
        (with_operand(2, dimensions=(1,)), "operand 2: INT32 is a scalar"),
        (with_operand(2, dimensions=None), "operand 2: INT32 is a scalar"),
        (with_operand(0, scale=float("inf")), "operand 0: scale inf"),
        (with_operand(0, channel_quant=QUANT), "operand 0: .* channel scales"),
        (with_operand(1, location=replace(POOL, pool=1)), "operand 1: pool 1"),
        (with_operand(1, location=replace(POOL, pool=-1)), "operand 1: pool -1"),
        (with_operand(1, location=replace(POOL, offset=41)), "operand 1: 24 bytes at offset 41"),
        (with_operand(1, location=replace(POOL, offset=-4)), "operand 1: 24 bytes at offset -4"),
        (with_operand(1, location=replace(POOL, length=20)), "operand 1: the value has 20 bytes"),
        (with_operand(1, location=None), "operand 1: .* location"),
        (with_operand(0, location=POOL), "operand 0: .* location"),
        (with_operand(1, dimensions=None), "operand 1: a constant must be fully specified"),
        (with_operand(2, value=bytes(5)), "operand 2: the value has 5 bytes"),
        (with_operand(3, value=bytes(24)), "operand 3: .* value of its own"),
        (with_operand(3, subgraph=0), "operand 3: .* referenced graph 0"),
        (with_operand(3, lifetime=Lifetime.SUBGRAPH, subgraph=0), "operand 3: type TENSOR_FLOAT32"),
        (with_operand(3, lifetime=Lifetime.SUBGRAPH_INPUT), "2 operands of lifetime SUBGRAPH_INPUT"),
        (with_operand(0, lifetime=Lifetime.TEMPORARY_VARIABLE), "input 0: operand 0 has lifetime"),
        (with_operand(4, lifetime=Lifetime.TEMPORARY_VARIABLE), "output 0: operand 4 has lifetime"),
        (with_operand(2, value=b"\x09\0\0\0"), "operation 0 ADD: operand 2 .* is 9"),
        (with_operand(3, dimensions=(2, 4)), "operation 0 ADD: operand 3"),
        (with_operand(1, lifetime=Lifetime.NO_VALUE, location=None), "operand 1 .* omitted"),
        (with_operation(0, inputs=(0, 1, 9)), "operation 0 ADD: there is no operand 9"),
        (with_operation(0, inputs=(0, -1, 2)), "operation 0 ADD: there is no operand -1"),
        (with_operation(0, outputs=(9,)), "operation 0 ADD: there is no operand 9"),
        (with_operation(0, inputs=(0, 1)), "operation 0 ADD: .* inputs"),
        (with_operation(0, outputs=()), "operand 3 is read before|outputs"),
        (with_operation(0, outputs=(0,)), "operand 0 .* written"),
        (with_operation(0, outputs=(1,)), "operand 1 .* written"),
        (with_operation(1, outputs=(3,)), "operand 3 .* written .* twice"),
        (with_operation(0, inputs=(3, 1, 2)), "operand 3 is read before it is written"),
        (with_operation(0, type=OperationType.IF), "operation 0 IF"),
        (with_graph(model(), inputs=(0, 0)), "input|listed"),
        (with_graph(model(), inputs=(7,)), "input 0: there is no operand 7"),
        (with_graph(model(), outputs=()), "no output; at least one is expected"),
        (with_graph(model(), outputs=(-1,)), "output 0: there is no operand -1"),
        (with_graph(model(), operations=()), "at least one of each is expected"),
        (with_graph(model(), operands=()), "at least one of each is expected"),
        (
            with_graph(model(), operations=tuple(reversed(model().main.operations))),
            "operand 3 is read before it is written",
        ),
    ],
)
def test_broken_models(broken: Model, message: str) -> None:
    with pytest.raises(BadData, match=message):
        validate_model(broken)


def test_rules_that_do_not_concern_single_operations_are_checked_for_accepted_models() -> None:
    validate_accepted(model())
    for broken in (
        with_operand(0, dimensions=(-1, 3)),
        with_operand(1, location=replace(POOL, offset=41)),
        with_operation(0, inputs=(3, 1, 2)),
        with_operation(0, type=OperationType.IF),
        with_graph(model(), outputs=()),
    ):
        with pytest.raises(BadData):
            validate_accepted(broken)


def negation(operation_type: OperationType, *, zero_point: int) -> Model:
    """Returns a model of int16 numbers with a scale."""
    kind = OperandType.TENSOR_QUANT16_SYMM
    source = Operand(
        type=kind, dimensions=(2,), scale=0.5, zero_point=zero_point, lifetime=Lifetime.SUBGRAPH_INPUT
    )
    graph = Subgraph(
        operands=(source, replace(source, lifetime=Lifetime.SUBGRAPH_OUTPUT)),
        operations=(Operation(type=operation_type, inputs=(0,), outputs=(1,)),),
        inputs=(0,),
        outputs=(1,),
    )
    return Model(main=graph)


def test_zero_points_of_16_bits_are_for_operations_of_extensions_that_say_so() -> None:
    validate_model(negation(OperationType.TFLITE_NEG, zero_point=5))
    validate_model(negation(OperationType.TFLITE_ABS, zero_point=0))
    with pytest.raises(BadData, match=r"operand 0 .* zero point 5; 0 is expected"):
        validate_model(negation(OperationType.TFLITE_ABS, zero_point=5))
    with pytest.raises(BadData, match="operand 0: zero point 32768; TENSOR_QUANT16_SYMM needs from -32768"):
        validate_model(negation(OperationType.TFLITE_NEG, zero_point=1 << 15))
    with pytest.raises(BadData, match="operand 0: zero point 5; TENSOR_QUANT16_SYMM needs 0"):
        validate_model(negation(OperationType.ABS, zero_point=5))


def referring(*targets: int) -> Subgraph:
    """Returns a valid graph with an operand for each graph that it refers to."""
    graph = model().main
    references = tuple(
        Operand(type=T.MODEL, lifetime=Lifetime.SUBGRAPH, subgraph=target) for target in targets
    )
    return replace(graph, operands=(*graph.operands, *references))


@sweep("referenced", [[(0,)], [(1,), (0,)], [(1, 2), (2,), (0,)]])
def test_reference_cycles(referenced: list[tuple[int, ...]]) -> None:
    graphs = tuple(referring(*targets) for targets in referenced)
    broken = replace(model(), main=referring(0), referenced=graphs)
    with pytest.raises(BadData, match="refers to itself"):
        validate_model(broken)


@sweep(("inputs", "outputs"), [((99,), (4,)), ((0,), (99,)), ((-1,), (4,))])
def test_control_flow_to_a_graph_with_ends_that_are_not_there(
    inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    """Errors of a graph are reported before operations of other graphs use its interface."""
    inner = replace(model().main, inputs=inputs, outputs=outputs)
    condition = Operand(type=T.TENSOR_BOOL8, dimensions=(1,), lifetime=Lifetime.SUBGRAPH_INPUT)
    graph = Operand(type=T.MODEL, lifetime=Lifetime.SUBGRAPH, subgraph=0)
    value = Operand(type=FLOAT, dimensions=(2, 3), lifetime=Lifetime.SUBGRAPH_INPUT)
    output = replace(value, lifetime=Lifetime.SUBGRAPH_OUTPUT)
    main = Subgraph(
        operands=(condition, graph, graph, value, output),
        operations=(Operation(type=OperationType.IF, inputs=(0, 1, 2, 3), outputs=(4,)),),
        inputs=(0, 3),
        outputs=(4,),
    )
    with pytest.raises(BadData, match=r"graph 1: .* there is no operand"):
        validate_model(replace(model(), main=main, referenced=(inner,)))


def test_deep_references() -> None:
    depth = 3000
    graphs = (*tuple(referring(n + 1) for n in range(depth)), referring())
    deep = replace(model(), main=referring(0), referenced=graphs)
    with pytest.raises(ResourceExhaustedPersistent, match="3001 levels deep; at most 16"):
        validate_model(deep)
    few = (*tuple(referring(n + 1) for n in range(MAX_DEPTH - 1)), referring())
    valid = replace(deep, referenced=few)
    assert validate_model(valid) is FeatureLevel.LEVEL_4
    broken = replace(model(), main=referring(depth + 1), referenced=graphs)
    with pytest.raises(BadData, match="referenced graph"):
        validate_model(broken)


def request(
    inputs: tuple[Argument, ...] = (Argument(pool=0, length=24),),
    outputs: tuple[Argument, ...] = (Argument(pool=0, offset=64, length=24),),
    pools: tuple[Memory, ...] = (),
) -> Request:
    return Request(inputs=inputs, outputs=outputs, pools=pools or (HostMemory(np.zeros(128, np.uint8)),))


def test_valid_requests() -> None:
    validate_request(model(), request())
    validate_request(model(), request(inputs=(Argument(),)))
    open_shape = model(dimensions=(0, 3))
    inputs = (Argument(pool=0, length=12, dimensions=(1, 3)),)
    validate_request(open_shape, request(inputs=inputs))
    validate_request(open_shape, request(inputs=inputs, outputs=(Argument(pool=0, length=7),)))


GOOD = Argument(pool=0, length=24)


@sweep(
    ("make", "message"),
    [
        (lambda: request(inputs=()), "0 inputs; the model has 1"),
        (lambda: request(outputs=(GOOD, GOOD)), "2 outputs; the model has 1"),
        (lambda: request(inputs=(replace(GOOD, pool=1),)), "input 0: pool 1"),
        (lambda: request(inputs=(replace(GOOD, pool=-1),)), "input 0: pool -1"),
        (lambda: request(inputs=(replace(GOOD, offset=105),)), "input 0: 24 bytes at offset 105"),
        (lambda: request(inputs=(replace(GOOD, offset=-1),)), "input 0: 24 bytes at offset -1"),
        (lambda: request(inputs=(replace(GOOD, length=23),)), "input 0: 23 bytes"),
        (lambda: request(inputs=(replace(GOOD, length=25),)), "input 0: 25 bytes"),
        (lambda: request(inputs=(replace(GOOD, dimensions=(3, 2)),)), "input 0: shape"),
        (lambda: request(inputs=(Argument(length=24),)), "input 0: an omitted argument"),
        (lambda: request(outputs=(Argument(),)), "output 0: no memory"),
        (lambda: request(outputs=(replace(GOOD, length=20),)), "output 0: 20 bytes"),
        (
            lambda: request(pools=(HostMemory(bytes(128)),)),
            "output 0: its memory is read-only; an output needs memory that can be written",
        ),
    ],
)
def test_broken_requests(make: Callable[[], Request], message: str) -> None:
    with pytest.raises(BadData, match=message):
        validate_request(model(), make())


def test_an_input_whose_shape_stays_open() -> None:
    for dimensions in ((0, 3), None):
        with pytest.raises(BadData, match="fully specified"):
            validate_request(model(dimensions=dimensions), request())


@sweep(
    ("declared", "given", "merged"),
    [
        (None, None, None),
        (None, (2, 0), (2, 0)),
        ((2, 0), None, (2, 0)),
        ((2, 0), (0, 3), (2, 3)),
        ((2, 3), (2, 3), (2, 3)),
        ((), (), ()),
    ],
)
def test_merge_dimensions(
    declared: tuple[int, ...] | None,
    given: tuple[int, ...] | None,
    merged: tuple[int, ...] | None,
) -> None:
    assert merge_dimensions(declared, given, "it") == merged


@sweep(("declared", "given"), [((2, 3), (3, 3)), ((2,), (2, 1)), ((), (1,))])
def test_dimensions_that_differ(declared: tuple[int, ...], given: tuple[int, ...]) -> None:
    with pytest.raises(BadData, match="it: shape"):
        merge_dimensions(declared, given, "it")
