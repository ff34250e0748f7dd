"""Builds a graph from a step model by lowering each operation and folding constants."""

from collections.abc import Mapping, Sequence

from neurald.drivers.compiler.frontend.constant_lowering import EvaluateGraph, constant_results
from neurald.drivers.compiler.frontend.lengths.bounded_shapes import BoundedShapes
from neurald.drivers.compiler.frontend.lengths.computed_lengths import computed_lengths
from neurald.drivers.compiler.frontend.lengths.open_lengths import lengths_of
from neurald.drivers.compiler.frontend.lowering_options import LoweringOptions
from neurald.drivers.compiler.frontend.operand_values import (
    elements_of_operand,
    scalar_of,
    value_of_operand,
)
from neurald.drivers.compiler.frontend.operation_lowering import (
    lowered,
    lowered_to,
    require_result,
    result_shapes,
)
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering import BOUNDED_LOWERINGS
from neurald.hal.accounting.account import charge
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation
from neurald.hal.model.model import Model
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.validation.shape_inference import at_operation, infer_shapes

#: Memory that the compilation of one operation takes, including its code.
_OPERATION_BYTES = 32 << 10


def build_graph(
    model: Model,
    input_shapes: Mapping[int, Shape] | None = None,
    evaluate: EvaluateGraph | None = None,
    *,
    options: LoweringOptions | None = None,
    charges_constants: bool = True,
    lengths: Mapping[int, Array] | None = None,
) -> Graph:
    """Builds the graph of a model's main graph.

    Args:
        model: a valid model. All of its operations must be supported.
        input_shapes: shapes of inputs that the model leaves open, by operand.
        evaluate: computes float arithmetic on constants, so that folding an operation gives the
            same result as running it. By default the references compute it.
        options: what lowering may rely on; None for nothing beyond the model.
        charges_constants: False if the model's constants are charged elsewhere.
        lengths: the elements of operands that are extents, by operand.

    Raises:
        BadData: an operation has no lowering, or its arguments are invalid.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account has not enough
            memory left.
    """
    constants_bytes = sum(pool.size for pool in model.pools) if charges_constants else 0
    charge(constants_bytes + _OPERATION_BYTES * len(model.main.operations), "compiling a model")
    lowering = _ModelLowering(
        model, input_shapes or {}, lengths or {}, evaluate, LoweringOptions() if options is None else options
    )
    for position in range(len(model.main.operations)):
        try:
            lowering.add(position)
        except Unsupported as error:
            raise at_operation(model.main, position, BadData(str(error))) from None
    try:
        return lowering.finish()
    except Unsupported as error:
        raise BadData(str(error)) from None


class _ModelLowering:
    """Lowers the operations of a model's main graph one after another.

    Args:
        model, input_shapes, lengths, evaluate, options: see `build_graph`.
    """

    def __init__(
        self,
        model: Model,
        input_shapes: Mapping[int, Shape],
        lengths: Mapping[int, Array],
        evaluate: EvaluateGraph | None,
        options: LoweringOptions,
    ) -> None:
        self._model, self._main = model, model.main
        self._evaluate, self._options = evaluate, options
        operands = self._main.operands
        self._bindings = [DEFINITIONS[each.type].bind(each, operands) for each in self._main.operations]
        self._shapes = infer_shapes(model, self._main, self._bindings, input_shapes)
        constants = ((index, model.constant(operand)) for index, operand in enumerate(operands))
        #: The values that are known before the model runs, by operand.
        self._known: dict[int, Array] = {index: array for index, array in constants if array is not None}
        self._known.update(lengths)
        self._given = frozenset(self._known)
        self._values: dict[int, Value] = {}
        self._graph = Graph(inputs=[], outputs=[])
        self._builder = Builder(self._graph, self._value_of)
        self._bounds = BoundedShapes(self._builder, self._shapes.get)

    def _value_of(self, index: int) -> Value:
        """Returns the value of an operand, which is made at its first use."""
        if index not in self._values:
            operand, array = self._main.operands[index], self._known.get(index)
            self._values[index] = (
                value_of_operand(operand, self._shapes.get(index), array, index, self._options.strings)
                if array is None or array.dtype != object or is_string(operand.type)
                else computed_lengths(self._builder, array, scalar_of(operand.type))
            )
        return self._bounds.replaced.get(index, self._values[index])

    def add(self, position: int) -> None:
        """Lowers the operation at a position, or computes it if its results are known.

        Raises:
            Unsupported: it has no lowering.
        """
        operation, known = self._main.operations[position], self._known
        call = Call(
            self._bindings[position],
            self._main.operands,
            self._shapes.get,
            known.get,
            referenced=self._model.referenced,
            expects_inputs=self._options.expects_inputs,
        )
        self._builder.begin(position)
        # The shape of a value with a limit is an upper bound, and no length.
        has_all_rows = self._has_all_rows(operation, call)
        constants = None
        if not has_all_rows and not self._bounds.limits_input(call):
            constants = lengths_of(call, known.get)
        if constants is None and not has_all_rows:
            constants = constant_results(
                call, self._main.operands, self._shapes, known, self._given, self._evaluate
            )
        if constants is not None:
            known.update(zip(operation.outputs, constants, strict=True))
            self._note_shapes(operation, [array.shape for array in constants])
            return
        if self._options.has_bounds and self._bounds.concerns(call):
            results = self._bounds.lower_all(operation, call, lowered)
            self._note_shapes(operation, [each.shape for each in results])
        elif has_all_rows:
            results = [each.value for each in BOUNDED_LOWERINGS[operation.type](call, self._builder)]
            self._note_shapes(operation, [each.shape for each in results])
        else:
            shapes = result_shapes(call)
            self._note_shapes(operation, shapes)
            results = lowered_to(shapes, call, self._builder)
        self._take(operation, call, results)

    def _has_all_rows(self, operation: Operation, call: Call) -> bool:
        """Returns True if a block's program declares results with all rows that there may be.

        The block may know how many there are, where the program does not.
        """
        if not self._options.has_all_rows or operation.type not in BOUNDED_LOWERINGS:
            return False
        declared = tuple(self._main.operands[index].dimensions for index in operation.outputs)
        return DEFINITIONS[operation.type].known_output_shapes(call) != declared

    def _note_shapes(self, operation: Operation, shapes: Sequence[Shape]) -> None:
        """Notes the shapes of results.

        Raises:
            AssertionError: the graph is a block of a program, which has reserved memory for others.
        """
        for index, shape in zip(operation.outputs, shapes, strict=True):
            declared = self._main.operands[index].dimensions
            if self._options.has_all_rows and shape != declared:
                raise AssertionError(
                    f"{operation.type.name} has a result of shape {list(shape)} where its program "
                    f"declares {None if declared is None else list(declared)}"
                )
            self._shapes[index] = shape

    def _take(self, operation: Operation, call: Call, results: Sequence[Value]) -> None:
        """Notes the results of an operation."""
        for index, result in zip(operation.outputs, results, strict=True):
            operand = self._main.operands[index]
            require_result(result, operand, self._shapes[index], call)
            result.name = result.name or operand.name or f"operand {index}"
            self._values[index] = result
            if result.constant is not None:
                self._known[index] = elements_of_operand(operand.type, result.constant, self._options.strings)

    def finish(self) -> Graph:
        """Returns the graph of all operations.

        Raises:
            Unsupported: an input or output has no value that kernels know.
        """
        self._graph.inputs = [self._value_of(index) for index in self._main.inputs]
        self._graph.outputs = [self._value_of(index) for index in self._main.outputs]
        self._bounds.add_counts(self._graph, self._main.outputs)
        self._graph.remove_unused()
        return self._graph
