"""The operations of a model that compiling drivers support: those whose trial lowering succeeds."""

from collections.abc import Callable, Sequence

from neurald.drivers.compiler.frontend.lengths.bounded_shapes import BoundedShapes
from neurald.drivers.compiler.frontend.lowering_options import LoweringOptions
from neurald.drivers.compiler.frontend.operand_values import value_of_operand
from neurald.drivers.compiler.frontend.operation_lowering import (
    lowered,
    lowered_to,
    require_result,
    result_shapes,
)
from neurald.drivers.compiler.frontend.variants.open_dimensions import is_specified, with_assumed_shapes
from neurald.drivers.compiler.ir.builder import Builder, Limit, Unsupported
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering import BOUNDED_LOWERINGS, LOWERINGS
from neurald.hal.device import Verdict
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import declared_shape

#: Lifetimes of operands that operations compute. If another step computes one, it is an input of
#: this step.
_COMPUTED = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)

#: Returns the reason why a device does not support the graph of an operation, or "" if it does.
UnsupportedReason = Callable[[Graph], str]


def supported_operations(
    model: Model,
    unsupported_reason: UnsupportedReason = lambda _: "",
    *,
    options: LoweringOptions | None = None,
) -> tuple[Verdict, ...]:
    """Returns a verdict for each operation of the main graph.

    A verdict holds for every step that may include the operation. Therefore it treats computed
    operands as inputs, whose elements are not known. Unspecified dimensions of inputs are replaced
    by those of `with_assumed_shapes`.

    Args:
        model: a valid model.
        unsupported_reason: returns the reason why the device cannot compute the graph of a single
            operation, or "".
        options: see `build_graph`. With `has_bounds`, verdicts on operations whose inputs have
            upper bounds as shapes only hold for steps that include the operations that compute
            these inputs.
    """
    if not is_specified(model):
        model = with_assumed_shapes(model)
    operands = [
        replace(operand, lifetime=Lifetime.SUBGRAPH_INPUT) if operand.lifetime in _COMPUTED else operand
        for operand in model.main.operands
    ]
    trial = _TrialLowering(
        model, operands, unsupported_reason, LoweringOptions() if options is None else options
    )
    reasons = (trial.unsupported_reason(position) for position in range(len(model.main.operations)))
    return tuple(Verdict(ok=not reason, reason=reason) for reason in reasons)


class _TrialLowering:
    """Lowers operations one by one, in order, to know whether that is possible.

    Args:
        model: the model.
        operands: those of its main graph.
        unsupported_reason, options: see `supported_operations`.
    """

    def __init__(
        self,
        model: Model,
        operands: Sequence[Operand],
        unsupported_reason: UnsupportedReason,
        options: LoweringOptions,
    ) -> None:
        self._model, self._operands, self._is_unsupported = model, operands, unsupported_reason
        self._options = options
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
        is_bounded = self._options.has_bounds and operation.type in BOUNDED_LOWERINGS
        if definition is None or not (is_bounded or operation.type in LOWERINGS):
            return f"{operation.type.name} has no lowering"

        def value_of(index: int) -> Value:
            constant = model.constant(operands[index])
            value = value_of_operand(
                operands[index], self._shape(index), constant, index, self._options.strings
            )
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
                expects_inputs=self._options.expects_inputs,
            )
            if self._options.has_bounds and bounds.concerns(call):
                results = bounds.lower_all(operation, call, lowered)
                self._limits = bounds.limits
                self._bounds.update(
                    (index, result.shape)
                    for index, result in zip(operation.outputs, results, strict=True)
                    if index in bounds.limits
                )
            else:
                shapes = result_shapes(call)
                results = lowered_to(shapes, call, builder)
                for index, result, shape in zip(operation.outputs, results, shapes, strict=True):
                    require_result(result, operands[index], shape, call)
        except (Unsupported, BadData) as error:
            return str(error)
        graph.outputs = list(results)
        return self._is_unsupported(graph)
