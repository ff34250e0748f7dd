"""Replaces IF and WHILE by the operations that run, where control flow does not depend on data.

Some converters write recurrent cells as loops from one constant to another, whose condition always
follows from constants. Unrolling them makes the results of the counter arithmetic, and with it all
shapes, known before execution.
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
#: Longer loops run at execution time: each iteration adds kernels, which take time to compile.
_MAX_ITERATIONS = 128
_MAX_OPERATIONS = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class UnrolledModel:
    """A model without control flow.

    Attributes:
        model: equivalent to the given model.
        origins: for each of its operations, the position of the originating operation in the given
            model.
    """

    model: Model
    origins: tuple[int, ...]


class _DependsOnData(Exception):
    """Control flow depends on data, or unrolling it exceeds the limits."""


def unroll_control_flow(
    model: Model, input_shapes: Mapping[int, Shape] | None = None
) -> UnrolledModel | None:
    """Returns the model without control flow, or None if it has none or if it depends on data.

    Args:
        model: valid.
        input_shapes: shapes of inputs that the model leaves open, by operand.
    """
    if not any(operation.type in _CONTROL_FLOW for operation in model.main.operations):
        return None
    try:
        return _Unroller(model, input_shapes or {}).result()
    except (_DependsOnData, UnknownValue, BadData):
        # The execution reports the error, if there is one.
        return None


class _Unroller:
    """Unrolls one model.

    Operands of the main graph keep their indexes. Operands of other graphs get new ones each time
    their graph is run.
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
            self._new(operand)
        self._shapes.update(input_shapes)

    def _new(self, operand: Operand) -> int:
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
        where = {index: index for index in range(len(main.operands))}
        for position, operation in enumerate(main.operations):
            self._add(operation, where, position)
        outputs = tuple(where[index] for index in main.outputs)
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

    def _add(self, operation: Operation, where: dict[int, int], origin: int) -> None:
        """Adds an operation whose graph's operands are mapped by `where`.

        Updates `where` for its results.
        """
        moved = replace(
            operation,
            inputs=tuple(where[index] for index in operation.inputs),
            outputs=tuple(where[index] for index in operation.outputs),
        )
        definition = DEFINITIONS[operation.type]
        binding = definition.bind(moved, self._operands)
        call = Call(
            binding, self._operands, self._shapes.get, self._known.get, referenced=self._model.referenced
        )
        if operation.type in _CONTROL_FLOW:
            run = self._branch if operation.type is OperationType.IF else self._loop
            where.update(zip(operation.outputs, run(call, origin), strict=False))
            return
        results = fold_constant_operation(call, self._known)
        if results is not None:
            for index, result in zip(moved.outputs, results, strict=True):
                self._set(index, result)
            return
        for index, shape in zip(moved.outputs, definition.output_shapes(call), strict=True):
            self._shapes[index] = merge(
                self._operands[index].dimensions, shape, operand_name(self._operands, index)
            )
        if len(self._operations) >= _MAX_OPERATIONS:
            raise _DependsOnData
        self._operations.append(moved)
        self._origins.append(origin)

    def _set(self, index: int, value: Array) -> None:
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
        return self._run(call.graph_index(name), _values(call), origin)

    def _loop(self, call: Call, origin: int) -> Sequence[int]:
        values = [*_values(call)]
        for _ in range(_MAX_ITERATIONS):
            before = len(self._operations)
            (condition,) = self._run(call.graph_index("condition"), values, origin)
            holds = self._holds(condition)
            # The condition follows from constants, so the operations of its graph are not needed.
            del self._operations[before:], self._origins[before:]
            if not holds:
                return values
            results = self._run(call.graph_index("body"), values, origin)
            values[: len(results)] = results
        raise _DependsOnData

    def _holds(self, condition: int) -> bool:
        value = self._known.get(condition)
        if value is None or value.size != 1:
            raise _DependsOnData
        return bool(value.reshape(-1)[0])

    def _run(self, graph: int, inputs: Sequence[int], origin: int) -> Sequence[int]:
        """Runs a graph on these inputs and returns its outputs."""
        inner = self._model.referenced[graph]
        where = dict(zip(inner.inputs, inputs, strict=True))
        for index, operand in enumerate(inner.operands):
            if index in where:
                continue
            if operand.lifetime.is_constant:
                key = graph, index
                if key not in self._constants:
                    self._constants[key] = self._new(operand)
                where[index] = self._constants[key]
            elif operand.lifetime in (Lifetime.NO_VALUE, Lifetime.SUBGRAPH):
                where[index] = self._new(operand)
            else:
                where[index] = self._new(replace(operand, lifetime=Lifetime.TEMPORARY_VARIABLE))
        for operation in inner.operations:
            self._add(operation, where, origin)
        return [where[index] for index in inner.outputs]


def _values(call: Call) -> Sequence[int]:
    return call.indexes("inputs") if "inputs" in call.binding.inputs else ()
