"""Generates random graphs of all operations from constants, inputs and other operations' values.

An operation, its control values and its quantisations are drawn like those of `neurald
conformance`. Its tensors of arbitrary elements are then replaced by values of the graph, converted
if type or shape do not fit. Android's TestRandomGraph does the same with constraints on shapes.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from random_graphs.control_flow import branch, loop
from random_graphs.conversion import CONVERTIBLE, converted, is_same_kind
from random_graphs.growing import REFUSALS, Growing, Making

from neurald.hal.memory.alignment import align
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.graph import Location, Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model
from neurald.service.conformance.cases.case import Case, CaseSignature, generate, signatures

#: Shares of the kinds of additions; the rest are Android's other operations.
_POINTWISE, _EXTENSION, _CONTROL_FLOW = 0.35, 0.15, 0.08
#: Operations with random results.
_RANDOM = frozenset(
    (
        OperationType.RANDOM_MULTINOMIAL,
        OperationType.TFLITE_MULTINOMIAL,
        OperationType.TFLITE_RANDOM_UNIFORM,
        OperationType.TFLITE_RANDOM_STANDARD_NORMAL,
    )
)
_FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
_T = OperationType
_FUSED = (_T.ADD, _T.SUB, _T.MUL)
_BINARY = (_T.MAXIMUM, _T.MINIMUM)
_UNARY = (_T.RELU, _T.RELU1, _T.RELU6)
_FLOAT_UNARY = (_T.TANH, _T.LOGISTIC, _T.ABS, _T.NEG, _T.FLOOR, _T.HARD_SWISH, _T.ELU, _T.SIN)
#: Parameters that are weights in nearly all models.
_WEIGHTS = ("filter", "weights", "bias", "recurrent")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGraph:
    """Model with its inputs and expected outputs."""

    seed: int
    model: Model
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]

    @property
    def operations(self) -> frozenset[OperationType]:
        """Types of its operations."""
        graphs = (self.model.main, *self.model.referenced)
        return frozenset(operation.type for graph in graphs for operation in graph.operations)


def random_graph(seed: int, most_operations: int = 12) -> RandomGraph:
    """Generates the graph of a seed; conversions are not included in the number of operations."""
    rng = random.Random(seed)
    while True:
        making = Making(rng)
        graph = Growing(making)
        grow(graph, rng.randint(1, most_operations), depth=2)
        if not graph.operations:
            continue
        outputs = _outputs(graph)
        main = _opened(graph.finish(outputs), rng)
        model = _pooled(Model(main=main, referenced=tuple(making.referenced)), rng)
        try:
            validate_model(model)
        except REFUSALS:
            continue
        return RandomGraph(
            seed=seed,
            model=model,
            inputs=tuple(graph.values[index] for index in graph.inputs),
            expected=tuple(graph.values[index] for index in outputs),
        )


def grow(graph: Growing, count: int, depth: int) -> None:
    """Adds approximately this many operations."""
    for _ in range(count):
        mark = graph.attempt()
        try:
            _add(graph, depth)
        except REFUSALS:
            graph.undo(mark)


def _add(graph: Growing, depth: int) -> None:
    rng = graph.rng
    kind = rng.random()
    usable = graph.usable()
    if kind < _CONTROL_FLOW:
        if depth and usable:
            rng.choice((branch, loop))(graph, lambda inner, count: grow(inner, count, depth - 1))
        return
    if kind < _CONTROL_FLOW + _POINTWISE and usable:
        _pointwise(graph, usable)
        return
    is_extension = kind > 1 - _EXTENSION
    chosen = rng.choice(_operations(is_extension))
    case = generate(rng.choice(_signatures()[chosen]), rng.randrange(1 << 30))
    if case is not None:
        _case(graph, case)


@cache
def _signatures() -> Mapping[OperationType, Sequence[CaseSignature]]:
    found: dict[OperationType, list[CaseSignature]] = {}
    for signature in signatures():
        if signature.definition.type not in _RANDOM:
            found.setdefault(signature.definition.type, []).append(signature)
    return found


@cache
def _operations(is_extension: bool) -> Sequence[OperationType]:
    return [kind for kind in _signatures() if kind.name.startswith("TFLITE_") == is_extension]


def _pointwise(graph: Growing, usable: Sequence[int]) -> None:
    """Adds a cheap operation on a value without conversion, which compilers fuse."""
    rng = graph.rng
    source = rng.choice(usable[-6:])
    operand = replace(
        graph.operands[source], dimensions=None, lifetime=Lifetime.TEMPORARY_VARIABLE, value=b""
    )
    kinds = [*_FUSED, *_BINARY, *_UNARY, *(_FLOAT_UNARY if operand.type in _FLOATS else ())]
    kind = rng.choice(kinds)
    inputs = [graph.read(source)]
    if kind in (*_FUSED, *_BINARY):
        inputs.append(_partner(graph, source, usable))
        rng.shuffle(inputs)
    if kind in _FUSED:
        inputs.append(graph.number(rng.randint(0, 3) if operand.type is not OperandType.TENSOR_INT32 else 0))
    graph.add(kind, inputs, operand)


def _partner(graph: Growing, source: int, usable: Sequence[int]) -> int:
    """Returns another value, or a constant, of the same type that broadcasts with one."""
    rng, operand, shape = graph.rng, graph.operands[source], graph.values[source].shape
    fitting = [
        index
        for index in usable
        if is_same_kind(graph.operands[index], operand) and graph.values[index].shape == shape
    ]
    if rng.random() < 0.6:
        return graph.read(rng.choice(fitting))
    lengths = [1 if rng.random() < 0.3 else length for length in shape]
    lengths = lengths[rng.randint(0, len(lengths) - 1) :] if lengths and rng.random() < 0.4 else lengths
    values = graph.making.generator().normal(scale=2, size=lengths)
    if operand.type.dtype.kind in "iu":
        values = np.clip(values * 20 + operand.zero_point, -100, 100)
    if operand.type.dtype.kind == "u":
        values = np.abs(values)
    return graph.constant(operand, values)


def _case(graph: Growing, case: Case) -> None:
    """Adds a drawn operation, with values of the graph for some of its tensors."""
    positions = case.signature.definition.bind(case.operation, case.operands, values_known=False).inputs
    names = {index: name for name, indexes in positions.items() for index in indexes}
    inputs = [
        _argument(graph, case, position, names.get(position, "")) for position in range(len(case.values))
    ]
    outputs = [case.operands[index] for index in case.operation.outputs]
    graph.add(case.type, inputs, *outputs)


def _argument(graph: Growing, case: Case, position: int, name: str) -> int:
    rng, operand, value = graph.rng, case.operands[position], case.values[position]
    if value is None:
        return graph.operand(replace(operand, lifetime=Lifetime.NO_VALUE))
    is_weight = any(word in name for word in _WEIGHTS)
    if position not in case.free or (is_weight and rng.random() < 0.8):
        return graph.constant(operand, value)
    usable = graph.usable()
    fitting = [
        index
        for index in usable
        if is_same_kind(graph.operands[index], operand) and graph.values[index].shape == value.shape
    ]
    if fitting and rng.random() < 0.7:
        return graph.read(rng.choice(fitting))
    sources = [index for index in usable if graph.operands[index].type in CONVERTIBLE]
    if sources and operand.type in CONVERTIBLE and rng.random() < 0.75:
        mark = graph.attempt()
        try:
            return converted(graph, rng.choice(sources), operand, value.shape)
        except REFUSALS:
            graph.undo(mark)
    if rng.random() < 0.3:
        return graph.constant(operand, value)
    return graph.read(graph.input(operand, value))


def _outputs(graph: Growing) -> list[int]:
    """Returns the unread values, except for some dead operations, and some of the read ones."""
    made = [index for operation in graph.operations for index in operation.outputs]
    unread = [index for index in made if index in graph.unread]
    outputs = [index for index in unread if graph.rng.random() < 0.9] or unread[-1:]
    outputs += [index for index in made if index not in graph.unread and graph.rng.random() < 0.15]
    return outputs or made[-1:]


def _opened(graph: Subgraph, rng: random.Random) -> Subgraph:
    """Leaves the shapes of some results unspecified."""
    operands = list(graph.operands)
    for index in (index for operation in graph.operations for index in operation.outputs):
        operand = operands[index]
        if rng.random() < 0.2 and operand.dimensions and operand.type.is_tensor:
            lengths = tuple(0 if rng.random() < 0.5 else length for length in operand.dimensions)
            operands[index] = replace(operand, dimensions=None if rng.random() < 0.3 else lengths)
    return replace(graph, operands=tuple(operands))


def _pooled(model: Model, rng: random.Random) -> Model:
    """Moves some constants of a model into a pool."""
    content = bytearray()

    def moved(operand: Operand) -> Operand:
        is_tensor = operand.type.is_tensor and operand.lifetime is Lifetime.CONSTANT_COPY
        if not is_tensor or not operand.value or rng.random() < 0.5:
            return operand
        content.extend(bytes(align(len(content)) - len(content)))
        place = Location(pool=0, offset=len(content), length=len(operand.value))
        content.extend(operand.value)
        return replace(operand, lifetime=Lifetime.CONSTANT_POOL, value=b"", location=place)

    graphs = [
        replace(graph, operands=tuple(moved(operand) for operand in graph.operands))
        for graph in (model.main, *model.referenced)
    ]
    pools: tuple[Memory, ...] = (HostMemory(bytes(content)),) if content else ()
    return replace(model, main=graphs[0], referenced=tuple(graphs[1:]), pools=pools)
