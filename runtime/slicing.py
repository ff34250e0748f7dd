"""The part of a model that a device of an older feature level may be asked about (Android's MetaModel)."""

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from neurald.hal.numbering import operand_number, operation_number
from neurald.hal.types import FeatureLevel, Lifetime, Model, Operand, Subgraph
from neurald.hal.validate import operation_levels

_levels: WeakKeyDictionary[Model, Sequence[FeatureLevel]] = WeakKeyDictionary()


def slice_for(model: Model, level: FeatureLevel) -> tuple[Model, tuple[int, ...]]:
    """The operations of the main graph that `level` has, as a model of their own.

    What the operations that are left out write becomes an input, what they read an output.

    Returns:
        The slice, and where each of its operations was in the model. The model itself if nothing has to be left out.
    """
    levels = _operation_levels(model)
    # What is in no released level is a matter between the model and the device.
    kept = tuple(
        n for n, needed in enumerate(levels) if needed <= level or needed is FeatureLevel.EXPERIMENTAL
    )
    if len(kept) == len(levels):
        return model, kept
    return _only(model, kept), kept


def _operation_levels(model: Model) -> Sequence[FeatureLevel]:
    """Kept as long as the model is: every device asks for them."""
    if model not in _levels:
        _levels[model] = operation_levels(model)
    return _levels[model]


def _only(model: Model, kept: Sequence[int]) -> Model:
    graph = model.main
    operations = [graph.operations[position] for position in kept]
    written = {index for operation in operations for index in operation.outputs}
    read_outside = {
        index
        for position, operation in enumerate(graph.operations)
        if position not in set(kept)
        for index in operation.inputs
    }
    used = sorted({i for operation in operations for i in (*operation.inputs, *operation.outputs)})
    place = {index: position for position, index in enumerate(used)}

    def changed(index: int) -> Operand:
        operand = graph.operands[index]
        is_output = operand.lifetime is Lifetime.SUBGRAPH_OUTPUT
        if index in written:
            shown = is_output or index in read_outside
            lifetime = Lifetime.SUBGRAPH_OUTPUT if shown else Lifetime.TEMPORARY_VARIABLE
            return replace(operand, lifetime=lifetime)
        if is_output or operand.lifetime is Lifetime.TEMPORARY_VARIABLE:
            return replace(operand, lifetime=Lifetime.SUBGRAPH_INPUT)
        return operand

    def numbered(index: int) -> Operand:
        return replace(changed(index), number=operand_number(graph.operands, index))

    operands = tuple(numbered(index) for index in used)
    return replace(
        model,
        main=Subgraph(
            operands=operands,
            operations=tuple(
                replace(
                    operation,
                    inputs=tuple(place[index] for index in operation.inputs),
                    outputs=tuple(place[index] for index in operation.outputs),
                    number=operation_number(graph, position),
                )
                for position, operation in zip(kept, operations, strict=True)
            ),
            inputs=tuple(n for n, o in enumerate(operands) if o.lifetime is Lifetime.SUBGRAPH_INPUT),
            outputs=tuple(n for n, o in enumerate(operands) if o.lifetime is Lifetime.SUBGRAPH_OUTPUT),
            number=graph.number,
        ),
        state=(),
        input_names=(),
        output_names=(),
    )
