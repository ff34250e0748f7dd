"""Operations whose code depends on shapes or values that are only known at execution.

The axes of a reduction or the lengths of a RESHAPE may be inputs of a model, or follow from data,
and so may the shapes of the operations that read the result. Such an operation gets code for the
shapes, and, if it needs them, for the values that an execution finds. The code is kept, because the
next execution often has the same ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.cpu.parts.known_results import KnownResults
from neurald.drivers.cpu.parts.native_segment import NativeSegment
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.accounting.account import Reservation
from neurald.hal.device import ExecuteOptions, KernelTime
from neurald.hal.errors import BadData
from neurald.hal.execution.compiled_segment import CompiledSegment
from neurald.hal.execution.reference_graph import Step
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operation_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import merge

#: Prepares the model of an operation, for the shapes of its inputs, by operand.
PrepareLate: TypeAlias = Callable[[Model, Mapping[int, Shape]], CpuPreparedModel | ReferenceModel]

_CONTROL_FLOW: Final = frozenset((OperationType.IF, OperationType.WHILE))
_VARIABLES: Final = (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE)
#: Maximum number of elements of a value that code depends on.
_MAX_ELEMENTS: Final = 16
#: Maximum number of sets of shapes and values for which an operation keeps code.
_MAX_KEPT: Final = 16
#: How often an operation gets code for what it finds for the first time, unless it has used other
#: code as often meanwhile. Beyond that, making code takes longer than all else, as for shapes that
#: always differ, and it only gets code for what it finds again.
_MAX_NEW: Final = 8

#: The shapes of an operation's inputs, and those values among them that code depends on.
_Found: TypeAlias = tuple[tuple[Shape, ...], tuple[bytes, ...]]
_Kept = TypeVar("_Kept")


def late_steps(
    model: Model, graphs: Sequence[Sequence[Step]], ways: Sequence[PrepareLate]
) -> list[list[Step]]:
    """Returns steps in which operations on references get code where an execution permits it.

    Args:
        model: the model.
        graphs: the steps of each of its graphs.
        ways: what prepares an operation; each is asked for what those before it do not compile.
    """
    return [
        [
            LateSegment(model, graph, step, ways)
            if isinstance(step, int) and _may_be_compiled(graph, graph.operations[step])
            else step
            for step in steps
        ]
        for graph, steps in zip((model.main, *model.referenced), graphs, strict=True)
    ]


def _may_be_compiled(graph: Subgraph, operation: Operation) -> bool:
    if operation.type not in DEFINITIONS or operation.type in _CONTROL_FLOW:
        return False
    operands = [graph.operands[index] for index in (*operation.inputs, *operation.outputs)]
    return bool(operation.outputs) and not any(
        is_string(each.type) or each.lifetime is Lifetime.SUBGRAPH for each in operands
    )


class LateSegment:
    """Implements `neurald.hal.execution.compiled_segment.CompiledSegment` for one operation.

    Args:
        model: the model of the graph.
        graph: one of its graphs.
        position: the position of the operation.
        ways: see `late_steps`.
    """

    #: Values choose the code.
    is_tolerant = False

    def __init__(self, model: Model, graph: Subgraph, position: int, ways: Sequence[PrepareLate]) -> None:
        self._model, self._graph, self._ways = model, graph, ways
        operation = self._operation = graph.operations[position]
        self.operations = (position,)
        self.inputs = tuple(
            dict.fromkeys(index for index in operation.inputs if graph.operands[index].lifetime in _VARIABLES)
        )
        self.outputs = operation.outputs
        self._definition = DEFINITIONS[operation.type]
        self._binding = self._definition.bind(operation, graph.operands)
        #: The inputs, by number, that may decide about code.
        self._deciding = tuple(
            number
            for number, index in enumerate(self.inputs)
            if graph.operands[index].type.dtype.kind in "iub"
            and any(
                index in indexes and name not in self._definition.arithmetic
                for name, indexes in self._binding.inputs.items()
            )
        )
        #: Code for what was found.
        self._kept: dict[_Found, _Code] = {}
        #: The inputs, by number, on whose values code for some shapes depends.
        self._needs_values: dict[tuple[Shape, ...], tuple[int, ...]] = {}
        self._new: dict[_Found, None] = {}
        #: How often code was made, less how often other code was used.
        self._count = 0
        self._latest: CompiledSegment | None = None
        self._lock = forkable_lock()

    def run(
        self, inputs: Sequence[Array | None], options: ExecuteOptions
    ) -> list[tuple[Array, Reservation]] | None:
        """See `CompiledSegment.run`."""
        given = [each for each in inputs if each is not None]
        if len(given) < len(inputs):
            return None
        shapes = tuple([each.shape for each in given])
        numbers = self._needs_values.get(shapes, ())
        found: _Found = shapes, tuple([given[number].tobytes() for number in numbers])
        code = self._kept.get(found)
        if code is None:
            code = self._made(found, numbers, given)
        elif self._count:
            self._count -= 1
        self._latest = code.segment
        if code.segment is None:
            return None
        return code.segment.run([given[number] for number in code.inputs], options)

    def profile(self) -> Sequence[KernelTime]:
        """See `CompiledSegment.profile`: of the code that ran last."""
        times = () if self._latest is None else self._latest.profile()
        return [replace(each, operations=self.operations) for each in times]

    def _made(self, found: _Found, numbers: Sequence[int], given: Sequence[Array]) -> "_Code":
        """Returns new code for what was found, and keeps it.

        Args:
            found: what was found.
            numbers: the inputs whose values are among it, by number.
            given: all inputs.
        """
        if self._count >= _MAX_NEW and found not in self._new:
            self._keep(self._new, found, None)
            return _Code(segment=None)
        self._count += 1
        shapes, _ = found
        segment = self._segment(found, numbers, given)
        short = tuple(number for number in self._deciding if given[number].size <= _MAX_ELEMENTS)
        if segment is None and not numbers and short:
            if len(self._needs_values) >= _MAX_KEPT:
                self._needs_values.clear()
            self._needs_values[shapes] = short
            found = shapes, tuple([given[number].tobytes() for number in short])
            segment = self._segment(found, short, given)
        read = () if segment is None else segment.inputs
        code = _Code(segment=segment, inputs=tuple(self.inputs.index(index) for index in read))
        self._keep(self._kept, found, code)
        return code

    def _keep(self, kept: dict[_Found, _Kept], found: _Found, what: _Kept) -> None:
        """Adds to what is kept, of which the oldest is dropped if it is too much."""
        with self._lock:
            while len(kept) >= _MAX_KEPT:
                del kept[next(iter(kept))]
            kept[found] = what

    def _segment(
        self, found: _Found, numbers: Sequence[int], given: Sequence[Array]
    ) -> CompiledSegment | None:
        """Returns code for what was found.

        Returns None if there is none, or if the operation does not take these arguments: its
        reference says why.
        """
        shapes = dict(zip(self.inputs, found[0], strict=True))
        # Not those of the arrays, which the application may change meanwhile.
        values: dict[int, Array] = {
            self.inputs[number]: np.ndarray(given[number].shape, given[number].dtype, content)
            for number, content in zip(numbers, found[1], strict=True)
        }
        try:
            results = self._results(shapes, values)
        except (BadData, UnknownValue):
            return None
        if all(0 in shape for shape in results):
            kinds = [self._graph.operands[index].type for index in self.outputs]
            return KnownResults(
                operations=self.operations,
                outputs=self.outputs,
                results=tuple(
                    np.empty(shape, kind.dtype) for kind, shape in zip(kinds, results, strict=True)
                ),
            )
        model = self._model_of(shapes, values, results)
        indexes = self._indexes()
        for prepare in self._ways:
            try:
                prepared = prepare(model, {n: shapes[indexes[n]] for n in model.main.inputs})
            except BadData:
                continue
            if isinstance(prepared, CpuPreparedModel):
                return NativeSegment(
                    operations=self.operations,
                    inputs=tuple(indexes[n] for n in model.main.inputs),
                    outputs=self.outputs,
                    native=prepared.native,
                )
        return None

    def _results(self, shapes: Mapping[int, Shape], values: Mapping[int, Array]) -> list[Shape]:
        """Returns the results' shapes.

        Raises:
            BadData: the arguments are invalid.
            UnknownValue: the shapes depend on other values.
        """
        operands, constant = self._graph.operands, self._model.constant

        def value_of(index: int) -> Array | None:
            return values[index] if index in values else constant(operands[index])

        def shape_of(index: int) -> Shape | None:
            if index in shapes:
                return shapes[index]
            array = constant(operands[index])
            return None if array is None else array.shape

        call = Call(self._binding, operands, shape_of, value_of, referenced=self._model.referenced)
        self._definition.check(call)
        found = self._definition.output_shapes(call)
        return [
            merge(operands[index].dimensions, shape, f"{operand_name(operands, index)} (output)")
            for index, shape in zip(self.outputs, found, strict=True)
        ]

    def _indexes(self) -> list[int]:
        """Returns the operands of the operation, each once."""
        return list(dict.fromkeys((*self._operation.inputs, *self.outputs)))

    def _model_of(
        self, shapes: Mapping[int, Shape], values: Mapping[int, Array], results: Sequence[Shape]
    ) -> Model:
        """Returns the model of the operation, with known values as constants."""
        indexes = self._indexes()
        numbers = {index: number for number, index in enumerate(indexes)}
        made = dict(zip(self.outputs, results, strict=True))

        def operand_of(index: int) -> Operand:
            operand = self._graph.operands[index]
            if index in values:
                return replace(
                    operand,
                    lifetime=Lifetime.CONSTANT_COPY,
                    dimensions=shapes[index],
                    value=np.ascontiguousarray(values[index], operand.type.dtype).tobytes(),
                )
            if index in shapes:
                return replace(operand, lifetime=Lifetime.SUBGRAPH_INPUT, dimensions=shapes[index])
            if index in made:
                return replace(operand, lifetime=Lifetime.SUBGRAPH_OUTPUT, dimensions=made[index])
            return operand

        (position,) = self.operations
        operation = replace(
            self._operation,
            inputs=tuple(numbers[index] for index in self._operation.inputs),
            outputs=tuple(numbers[index] for index in self.outputs),
            number=operation_number(self._graph, position),
        )
        graph = Subgraph(
            operands=tuple(operand_of(index) for index in indexes),
            operations=(operation,),
            inputs=tuple(numbers[index] for index in self.inputs if index not in values),
            outputs=operation.outputs,
            number=self._graph.number,
        )
        return Model(main=graph, pools=self._model.pools, relaxed=self._model.relaxed)


class _Code(Struct, frozen=True, kw_only=True, eq=False):
    """Code for what an operation has found.

    Attributes:
        segment: runs the code; None if there is none.
        inputs: the inputs that it reads, by number.
    """

    segment: CompiledSegment | None
    inputs: tuple[int, ...] = ()
