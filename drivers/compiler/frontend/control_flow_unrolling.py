"""Replaces IF and WHILE by the operations that they run, if their conditions follow from constants.

Some converters write a recurrent network as a loop from one constant to another. Unrolling such a
loop makes its counter a constant, and with it all shapes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from neurald.drivers.compiler.frontend.graph_builder import fold_constant_operation
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.errors import BadData
from neurald.hal.model.numbering import operand_name
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, Model, Operand, OperandType, Operation, array_to_store
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.validation.shape_inference import declared_shape, merge

_CONTROL_FLOW = frozenset((OperationType.IF, OperationType.WHILE))
#: Limits on unrolling, because each iteration adds kernels to compile. Longer loops stay loops.
_MAX_ITERATIONS = 128
_MAX_OPERATIONS = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class UnrolledModel:
    """A model without control flow.

    Attributes:
        model: the model, equivalent to the original one.
        origins: for each of its operations, the position in the original model of the one that it
            comes from.
    """

    model: Model
    origins: tuple[int, ...]


class _DependsOnData(Exception):
    """The control flow depends on data, or unrolling it exceeds the limits."""


def unroll_control_flow(
    model: Model, input_shapes: Mapping[int, Shape] | None = None
) -> UnrolledModel | None:
    """Returns the model without control flow, or None if it cannot be unrolled or has none.

    Args:
        model: a valid model.
        input_shapes: shapes of inputs that the model leaves open, by operand.
    """
    if not any(operation.type in _CONTROL_FLOW for operation in model.main.operations):
        return None
    try:
        return _Unroller(model, input_shapes or {}).result()
    except (_DependsOnData, UnknownValue, BadData):
        # If the model has an error, its execution reports it.
        return None


class _Unroller:
    """Unrolls one model.

    Operands of the main graph keep their indices. Operands of other graphs get new indices whenever
    their graph is inlined.
    """

    def __init__(self, model: Model, input_shapes: Mapping[int, Shape]) -> None:
        self._model = model
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._origins: list[int] = []
        self._shapes: dict[int, Shape] = {}
        self._known: dict[int, Array] = {}
        self._constants: dict[tuple[int, int], int] = {}
        for operand in model.main.operands:
            self._add_operand(operand)
        self._shapes.update(input_shapes)

    def _add_operand(self, operand: Operand) -> int:
        index = len(self._operands)
        self._operands.append(operand)
        shape, value = declared_shape(operand), self._model.constant(operand)
        if shape is not None:
            self._shapes[index] = shape
        if value is not None:
            self._known[index] = value
        return index

    def result(self) -> UnrolledModel:
        """Unrolls the main graph; see `unroll_control_flow`."""
        main = self._model.main
        mapping = {index: index for index in range(len(main.operands))}
        for position, operation in enumerate(main.operations):
            self._add_operation(operation, mapping, position)
        outputs = tuple(mapping[index] for index in main.outputs)
        written = {index for operation in self._operations for index in operation.outputs}
        if len({*outputs} & written) < len(outputs):
            # An output that is an input, a constant, or another output would need a copy.
            raise _DependsOnData
        for old, new in zip(main.outputs, outputs, strict=True):
            name = self._operands[old].name
            self._operands[old] = replace(self._operands[old], lifetime=Lifetime.TEMPORARY_VARIABLE)
            self._operands[new] = replace(self._operands[new], lifetime=Lifetime.SUBGRAPH_OUTPUT, name=name)
        graph = replace(
            main, operands=tuple(self._operands), operations=tuple(self._operations), outputs=outputs
        )
        return UnrolledModel(model=replace(self._model, main=graph), origins=tuple(self._origins))

    def _add_operation(self, operation: Operation, mapping: dict[int, int], origin: int) -> None:
        """Adds an operation, whose operands get new indices from `mapping`.

        Args:
            operation: the operation in its graph.
            mapping: the new index of each operand of that graph. Those of results may be replaced.
            origin: the position of the operation in the original model that it comes from.
        """
        moved = replace(
            operation,
            inputs=tuple(mapping[index] for index in operation.inputs),
            outputs=tuple(mapping[index] for index in operation.outputs),
        )
        definition = DEFINITIONS[operation.type]
        binding = definition.bind(moved, self._operands)
        call = Call(
            binding, self._operands, self._shapes.get, self._known.get, referenced=self._model.referenced
        )
        if operation.type in _CONTROL_FLOW:
            unroll = self._branch if operation.type is OperationType.IF else self._loop
            mapping.update(zip(operation.outputs, unroll(call, origin), strict=False))
            return
        results = fold_constant_operation(call, self._known)
        if results is not None:
            for index, result in zip(moved.outputs, results, strict=True):
                self._set_constant(index, result)
            return
        for index, shape in zip(moved.outputs, definition.output_shapes(call), strict=True):
            self._shapes[index] = merge(
                self._operands[index].dimensions, shape, operand_name(self._operands, index)
            )
        if len(self._operations) >= _MAX_OPERATIONS:
            raise _DependsOnData
        self._operations.append(moved)
        self._origins.append(origin)

    def _set_constant(self, index: int, value: Array) -> None:
        """Turns an operand into a constant."""
        operand = self._operands[index]
        if operand.type is OperandType.TENSOR_STRING:
            raise _DependsOnData
        self._operands[index] = replace(
            operand,
            lifetime=Lifetime.CONSTANT_COPY,
            dimensions=value.shape,
            value=array_to_store(value, operand.type).tobytes(),
        )
        self._known[index], self._shapes[index] = value, value.shape

    def _branch(self, call: Call, origin: int) -> Sequence[int]:
        name = "then" if self._holds(call.index("condition")) else "else"
        return self._inline(call.graph_index(name), _loop_inputs(call), origin)

    def _loop(self, call: Call, origin: int) -> Sequence[int]:
        values = [*_loop_inputs(call)]
        for _ in range(_MAX_ITERATIONS):
            before = len(self._operations)
            (condition,) = self._inline(call.graph_index("condition"), values, origin)
            holds = self._holds(condition)
            # The condition is constant, so the operations that compute it are not needed.
            del self._operations[before:], self._origins[before:]
            if not holds:
                return values
            results = self._inline(call.graph_index("body"), values, origin)
            values[: len(results)] = results
        raise _DependsOnData

    def _holds(self, condition: int) -> bool:
        value = self._known.get(condition)
        if value is None or value.size != 1:
            raise _DependsOnData
        return bool(value.reshape(-1)[0])

    def _inline(self, graph: int, inputs: Sequence[int], origin: int) -> Sequence[int]:
        """Inlines a graph with these inputs and returns its outputs, both as operand indices."""
        inner = self._model.referenced[graph]
        mapping = dict(zip(inner.inputs, inputs, strict=True))
        for index, operand in enumerate(inner.operands):
            if index in mapping:
                continue
            if operand.lifetime.is_constant:
                key = graph, index
                if key not in self._constants:
                    self._constants[key] = self._add_operand(operand)
                mapping[index] = self._constants[key]
            elif operand.lifetime in (Lifetime.NO_VALUE, Lifetime.SUBGRAPH):
                mapping[index] = self._add_operand(operand)
            else:
                mapping[index] = self._add_operand(replace(operand, lifetime=Lifetime.TEMPORARY_VARIABLE))
        for operation in inner.operations:
            self._add_operation(operation, mapping, origin)
        return [mapping[index] for index in inner.outputs]


def _loop_inputs(call: Call) -> Sequence[int]:
    return call.indexes("inputs") if "inputs" in call.binding.inputs else ()
