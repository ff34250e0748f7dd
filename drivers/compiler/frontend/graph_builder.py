"""Builds a graph from a step model by lowering each operation and folding constants.

An operation is supported if a trial lowering succeeds, so there is no separate list of supported
operations.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed, only_moves
from neurald.drivers.compiler.frontend.constant_operations import fold_constant_operation, is_foldable
from neurald.drivers.compiler.frontend.lengths.bounded_shapes import BoundedShapes
from neurald.drivers.compiler.frontend.lengths.computed_lengths import computed_lengths
from neurald.drivers.compiler.frontend.lengths.open_lengths import lengths_of
from neurald.drivers.compiler.frontend.variants.open_dimensions import is_specified, with_assumed_shapes
from neurald.drivers.compiler.ir.builder import Builder, Limit, Unsupported
from neurald.drivers.compiler.ir.complex_numbers import (
    as_numbers,
    as_pairs,
    is_complex,
    part_type,
    value_shape,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, has_extents
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.string_references import StringConstants, is_string, stored_dtype
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering import BOUNDED_LOWERINGS, LOWERINGS
from neurald.drivers.compiler.lowering.machinery.complex_parts import lower_parts, moves_complex
from neurald.hal.accounting.account import charge
from neurald.hal.device import Verdict
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.model import Model
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import at_operation, declared_shape, infer_shapes

#: Lifetimes of operands that operations compute. If another step computes one, it is an input of
#: this step.
_COMPUTED = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)

#: Memory that the compilation of one operation takes, including its code.
_OPERATION_BYTES = 32 << 10

#: Returns the reason why a device does not support the graph of an operation, or "" if it does.
UnsupportedReason = Callable[[Graph], str]

#: Computes a graph's outputs, bit for bit as compiled code does. It may change the graph.
EvaluateGraph = Callable[[Graph, Sequence[Array]], Sequence[Array]]


def build_graph(
    model: Model,
    input_shapes: Mapping[int, Shape] | None = None,
    evaluate: EvaluateGraph | None = None,
    *,
    charges_constants: bool = True,
    has_bounds: bool = False,
    has_all_rows: bool = False,
    expects_inputs: bool = False,
    lengths: Mapping[int, Array] | None = None,
    strings: StringConstants | None = None,
) -> Graph:
    """Builds the graph of a model's main graph.

    Args:
        model: a valid model. All of its operations must be supported.
        input_shapes: shapes of inputs that the model leaves open, by operand.
        evaluate: computes float arithmetic on constants, so that folding an operation gives the
            same result as running it. By default the references compute it.
        charges_constants: False if the model's constants are charged elsewhere.
        has_bounds: True if kernels may compute results of which only some rows exist, see
            `Graph.bounded`.
        has_all_rows: True if results whose numbers of rows follow from data are declared with all
            rows that there may be; those that do not exist may have any contents.
        expects_inputs: True if the graph does not serve executions that omit an input.
        lengths: the elements of operands that are extents, by operand.
        strings: numbers constant strings; None if kernels do not support strings.

    Raises:
        BadData: an operation has no lowering, or its arguments are invalid.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account has not enough
            memory left.
    """
    constants_bytes = sum(pool.size for pool in model.pools) if charges_constants else 0
    charge(constants_bytes + _OPERATION_BYTES * len(model.main.operations), "compiling a model")
    lowering = _ModelLowering(
        model,
        input_shapes or {},
        lengths or {},
        evaluate,
        has_bounds=has_bounds,
        has_all_rows=has_all_rows,
        expects_inputs=expects_inputs,
        strings=strings,
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
        model, input_shapes, lengths, evaluate: see `build_graph`.
        has_bounds, has_all_rows, expects_inputs, strings: see `build_graph`.
    """

    def __init__(
        self,
        model: Model,
        input_shapes: Mapping[int, Shape],
        lengths: Mapping[int, Array],
        evaluate: EvaluateGraph | None,
        *,
        has_bounds: bool,
        has_all_rows: bool,
        expects_inputs: bool,
        strings: StringConstants | None,
    ) -> None:
        self._model, self._main = model, model.main
        self._evaluate, self._has_bounds, self._has_all_rows = evaluate, has_bounds, has_all_rows
        self._expects_inputs, self._strings = expects_inputs, strings
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
                _value(operand, self._shapes.get(index), array, index, self._strings)
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
            expects_inputs=self._expects_inputs,
        )
        self._builder.begin(position)
        # The shape of a value with a limit is an upper bound, and no length.
        constants = None if self._bounds.limits_input(call) else lengths_of(call, known.get)
        if constants is None:
            constants = constant_results(
                call, self._main.operands, self._shapes, known, self._given, self._evaluate
            )
        if constants is not None:
            known.update(zip(operation.outputs, constants, strict=True))
            self._note_shapes(operation, [array.shape for array in constants])
            return
        if self._has_bounds and self._bounds.concerns(call):
            results = self._bounds.lower_all(operation, call, _lowered)
            self._note_shapes(operation, [each.shape for each in results])
        elif self._has_all_rows and operation.type in BOUNDED_LOWERINGS:
            results = [each.value for each in BOUNDED_LOWERINGS[operation.type](call, self._builder)]
            self._note_shapes(operation, [each.shape for each in results])
        else:
            shapes = _output_shapes(call)
            self._note_shapes(operation, shapes)
            results = _lowered_to(shapes, call, self._builder)
        self._take(operation, call, results)

    def _note_shapes(self, operation: Operation, shapes: Sequence[Shape]) -> None:
        self._shapes.update(zip(operation.outputs, shapes, strict=True))

    def _take(self, operation: Operation, call: Call, results: Sequence[Value]) -> None:
        """Notes the results of an operation."""
        for index, result in zip(operation.outputs, results, strict=True):
            operand = self._main.operands[index]
            _require(result, operand, self._shapes[index], call)
            result.name = result.name or operand.name or f"operand {index}"
            self._values[index] = result
            if result.constant is not None:
                self._known[index] = _elements(operand.type, result.constant, self._strings)

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


def supported_operations(
    model: Model,
    unsupported_reason: UnsupportedReason = lambda _: "",
    *,
    has_bounds: bool = False,
    expects_inputs: bool = False,
    strings: StringConstants | None = None,
) -> tuple[Verdict, ...]:
    """Returns a verdict for each operation of the main graph.

    A verdict holds for every step that may include the operation. Therefore it treats computed
    operands as inputs, whose elements are not known. Unspecified dimensions of inputs are replaced
    by those of `with_assumed_shapes`.

    Args:
        model: a valid model.
        unsupported_reason: returns the reason why the device cannot compute the graph of a single
            operation, or "".
        has_bounds: see `build_graph`. Verdicts on operations whose inputs have upper bounds as
            shapes only hold for steps that include the operations that compute these inputs.
        expects_inputs, strings: see `build_graph`.
    """
    if not is_specified(model):
        model = with_assumed_shapes(model)
    operands = [
        replace(operand, lifetime=Lifetime.SUBGRAPH_INPUT) if operand.lifetime in _COMPUTED else operand
        for operand in model.main.operands
    ]
    trial = _TrialLowering(
        model,
        operands,
        unsupported_reason,
        has_bounds=has_bounds,
        expects_inputs=expects_inputs,
        strings=strings,
    )
    reasons = (trial.unsupported_reason(position) for position in range(len(model.main.operations)))
    return tuple(Verdict(ok=not reason, reason=reason) for reason in reasons)


class _TrialLowering:
    """Lowers operations one by one, in order, to know whether that is possible.

    Args:
        model: the model.
        operands: those of its main graph.
        unsupported_reason, has_bounds, expects_inputs, strings: see `supported_operations`.
    """

    def __init__(
        self,
        model: Model,
        operands: Sequence[Operand],
        unsupported_reason: UnsupportedReason,
        *,
        has_bounds: bool,
        expects_inputs: bool,
        strings: StringConstants | None,
    ) -> None:
        self._model, self._operands, self._is_unsupported = model, operands, unsupported_reason
        self._has_bounds, self._expects_inputs = has_bounds, expects_inputs
        self._strings = strings
        #: The upper bounds of shapes, and the limits of their operands.
        self._bounds: dict[int, Shape] = {}
        self._limits: dict[int, Limit] = {}

    def _shape(self, index: int) -> Shape | None:
        return self._bounds.get(index) or declared_shape(self._operands[index])

    def unsupported_reason(self, position: int) -> str:
        """Returns the reason why an operation is not supported, or "" if it is."""
        model, operands = self._model, self._operands
        operation = model.main.operations[position]
        definition = DEFINITIONS.get(operation.type)
        is_bounded = self._has_bounds and operation.type in BOUNDED_LOWERINGS
        if definition is None or not (is_bounded or operation.type in LOWERINGS):
            return f"{operation.type.name} has no lowering"

        def value_of(index: int) -> Value:
            constant = model.constant(operands[index])
            value = _value(operands[index], self._shape(index), constant, index, self._strings)
            return bounds.replaced.get(index, value)

        graph = Graph(inputs=[], outputs=[])
        builder = Builder(graph, value_of)
        bounds = BoundedShapes(builder, self._shape)
        bounds.limits.update(self._limits)
        try:
            call = Call(
                definition.bind(operation, operands),
                operands,
                self._shape,
                lambda index: model.constant(operands[index]),
                referenced=model.referenced,
                expects_inputs=self._expects_inputs,
            )
            if self._has_bounds and bounds.concerns(call):
                results = bounds.lower_all(operation, call, _lowered)
                self._limits = bounds.limits
                self._bounds.update(
                    (index, result.shape)
                    for index, result in zip(operation.outputs, results, strict=True)
                    if index in bounds.limits
                )
            else:
                shapes = _output_shapes(call)
                results = _lowered_to(shapes, call, builder)
                for index, result, shape in zip(operation.outputs, results, shapes, strict=True):
                    _require(result, operands[index], shape, call)
        except (Unsupported, BadData) as error:
            return str(error)
        graph.outputs = list(results)
        return self._is_unsupported(graph)


def _lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
    lowering = LOWERINGS.get(call.binding.type)
    if lowering is None:
        raise Unsupported(f"{call.binding.type.name} has no lowering")
    try:
        if moves_complex(call):
            return lower_parts(call, builder, lowering)
        return lowering(call, builder)
    except UnknownValue as error:
        raise Unsupported(f"argument {error} must be known before execution") from None


def _lowered_to(shapes: Sequence[Shape], call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers an operation, given its results' shapes. No code computes results without elements."""
    kinds = [operand.type for name in call.binding.outputs for operand in call.operands(name)]
    has_elements = any(all(isinstance(length, Extent) or length for length in shape) for shape in shapes)
    if has_elements or not shapes or any(map(is_string, kinds)):
        return _lowered(call, builder)
    return tuple(
        builder.constant(
            np.zeros(value_shape(kind, shape), part_type(kind) if is_complex(kind) else kind.dtype)
        )
        for kind, shape in zip(kinds, shapes, strict=True)
    )


def _output_shapes(call: Call) -> tuple[Shape, ...]:
    try:
        return DEFINITIONS[call.binding.type].output_shapes(call)
    except UnknownValue as error:
        results = [operand for name in call.binding.outputs for operand in call.operands(name)]
        if results and all(has_extents(operand.dimensions or ()) for operand in results):
            # The program sets these lengths.
            return tuple(operand.dimensions or () for operand in results)
        raise Unsupported(
            f"the shape of the result depends on {error}, which is not known before execution"
        ) from None


def _has_reals(call: Call) -> bool:
    """Returns True if an input or output represents real numbers."""
    names = (*(name for name in call.binding.inputs if call.has(name)), *call.binding.outputs)
    return any(
        is_quantized(operand) or (operand.type.is_tensor and operand.type.dtype.kind == "f")
        for name in names
        for operand in call.operands(name)
    )


def constant_results(
    call: Call,
    operands: Sequence[Operand],
    shapes: Mapping[int, Shape],
    known: Mapping[int, Array],
    given: Collection[int],
    evaluate: EvaluateGraph | None,
) -> Sequence[Array] | None:
    """Returns the results of an operation on constants, or None if it has other inputs.

    Operations on real numbers are computed by their lowering, if `evaluate` is given. See
    `_computed_by_lowering` for the arguments.
    """
    if evaluate is not None and is_foldable(call, known) and _has_reals(call):
        results = _computed_by_lowering(call, operands, shapes, known, given, evaluate)
        if results is not None:
            return results
    return fold_constant_operation(call, known)


def _computed_by_lowering(
    call: Call,
    operands: Sequence[Operand],
    shapes: Mapping[int, Shape],
    known: Mapping[int, Array],
    given: Collection[int],
    evaluate: EvaluateGraph,
) -> Sequence[Array] | None:
    """Computes an operation on constants by its lowering.

    Constants that other operations computed are inputs of the evaluated graph, so that the result
    is the same as if those operations ran in another step.

    Args:
        call: the operation.
        operands: the operands of its graph.
        shapes: the known shapes of operands, by index.
        known: the known values of operands, by index.
        given: the indices of operands that are constants of the model.
        evaluate: computes the results.

    Returns:
        The results; None if the operation has no lowering, violates a requirement, or does no float
        arithmetic. The reference must then compute it.
    """
    graph = Graph(inputs=[], outputs=[])
    values: dict[int, Value] = {}
    arrays: list[Array] = []

    def value_of(index: int) -> Value:
        if index not in values:
            value = _value(operands[index], shapes.get(index), known.get(index), index, None)
            values[index] = value
            if index not in given and value.constant is not None:
                graph.inputs.append(value)
                arrays.append(value.constant)
                value.constant = None
        return values[index]

    try:
        graph.outputs = list(_lowered(call, Builder(graph, value_of)))
    except Unsupported:
        return None
    if all(only_moves(node) for node in graph.nodes):
        return None
    try:
        results = evaluate(graph, arrays)
    except RequirementFailed:
        # The reference raises the error for the violated requirement.
        return None
    kinds = [operand.type for name in call.binding.outputs for operand in call.operands(name)]
    return [as_numbers(kind, result) for kind, result in zip(kinds, results, strict=True)]


def _value(
    operand: Operand,
    shape: Shape | None,
    array: Array | None,
    index: int,
    strings: StringConstants | None,
) -> Value:
    """Returns an operand as a value.

    Raises:
        Unsupported: kernels do not support its type, or its shape is not known yet.
    """
    if strings is None and is_string(operand.type):
        raise Unsupported(f"{operand.type.name} is not supported by kernels")
    kind = scalar_of(operand.type)
    if shape is None:
        raise Unsupported(f"the shape of operand {index} is not known before execution")
    if operand.lifetime is Lifetime.NO_VALUE:
        raise Unsupported(f"operand {index} is omitted but required")
    elements = None if array is None else stored_elements(operand.type, array, strings)
    return Value(value_shape(operand.type, shape), kind, elements, operand.name or f"operand {index}")


def stored_elements(kind: OperandType, array: Array, strings: StringConstants | None) -> Array:
    """Returns the elements of a constant in the form that kernels compute with."""
    if strings is not None and is_string(kind):
        return strings.references(array)
    return as_pairs(array)


def scalar_of(kind: OperandType) -> Scalar:
    """Returns the scalar type of an operand; for complex operands, the type of their parts.

    Strings are references.

    Raises:
        Unsupported: kernels do not support the type.
    """
    if kind is OperandType.MODEL:
        raise Unsupported("graph operands are not supported by kernels")
    if is_complex(kind):
        return Scalar.of(part_type(kind))
    try:
        return Scalar.of(stored_dtype(kind))
    except KeyError:
        raise Unsupported(f"{kind.name} is not supported by kernels") from None


def _elements(kind: OperandType, array: Array, strings: StringConstants | None) -> Array:
    """Returns the elements of a constant as the operand's type has them."""
    if strings is not None and is_string(kind):
        return strings.of(array)
    return as_numbers(kind, array)


def _require(result: Value, operand: Operand, shape: Shape, call: Call) -> None:
    """Raises AssertionError if a lowering's result has the wrong shape or type, which is a bug."""
    expected, stored = scalar_of(operand.type), value_shape(operand.type, shape)
    if result.shape != stored or result.type is not expected:
        raise AssertionError(
            f"the lowering of {call.binding.type.name} returned {result.type.name} {list(result.shape)}; "
            f"expected {expected.name} {list(stored)}"
        )
