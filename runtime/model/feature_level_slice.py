"""Extracts the part of a model that a device of an older feature level can be asked about.

Android calls this the MetaModel.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from neurald.hal.model.model import Model
from neurald.hal.model.types import FeatureLevel, Lifetime
from neurald.runtime.model.branches import model_of

#: The last released level, which includes all others.
_NEWEST: Final = max(set(FeatureLevel) - {FeatureLevel.EXPERIMENTAL})

_levels: WeakKeyDictionary[Model, Sequence[FeatureLevel]] = WeakKeyDictionary()
#: Functions that return the levels of all graphs of a model, for models whose levels are not known.
_pending: WeakKeyDictionary[Model, Callable[[], Sequence[Sequence[FeatureLevel]]]] = WeakKeyDictionary()


def slice_for(
    model: Model, level: FeatureLevel, without: Collection[int] = ()
) -> tuple[Model, tuple[int, ...]]:
    """Builds a model of the main graph's operations in `level`, except those in `without`.

    Operands that dropped operations write become inputs, and those that they read become outputs.

    Returns:
        The slice, which is the model itself if nothing is dropped, and the position of each of its
            operations in the model.
    """
    if not without and level >= _NEWEST:
        return model, tuple(range(len(model.main.operations)))
    levels = levels_of(model)
    # Experimental operations have no released level, so the device decides about them.
    if not without and all(needed <= level or needed is FeatureLevel.EXPERIMENTAL for needed in set(levels)):
        return model, tuple(range(len(levels)))
    kept = tuple(
        n
        for n, needed in enumerate(levels)
        if n not in without and (needed <= level or needed is FeatureLevel.EXPERIMENTAL)
    )
    return _only(model, kept), kept


def levels_of(model: Model) -> Sequence[FeatureLevel]:
    """Returns the feature level of each operation, cached because every device needs it."""
    find = _pending.pop(model, None)
    if find is not None:
        for number, levels in enumerate(find()):
            _levels[model_of(model, number)] = levels
    if model not in _levels:
        # Not needed for a converted model in the cache, whose levels are known.
        from neurald.hal.validation.model_rules import operation_levels

        _levels[model] = operation_levels(model)
    return _levels[model]


def remember_levels(model: Model, find: Callable[[], Sequence[Sequence[FeatureLevel]]]) -> None:
    """Stores a function for what `levels_of` returns for a model and its referenced graphs.

    Args:
        model: the model.
        find: returns the levels that are known from earlier: of each graph as a model of its own.
    """
    _pending[model] = find


def _only(model: Model, kept: Sequence[int]) -> Model:
    from neurald.runtime.model.step_model import ModelPart  # Most devices are of the newest level.

    graph = model.main
    chosen = set(kept)
    used = {i for n in kept for i in (*graph.operations[n].inputs, *graph.operations[n].outputs)}
    written = {index for n in kept for index in graph.operations[n].outputs}
    read_outside = {
        index for n, operation in enumerate(graph.operations) if n not in chosen for index in operation.inputs
    }

    def lifetime(index: int) -> Lifetime:
        return graph.operands[index].lifetime

    variables = (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE)
    inputs = [index for index in sorted(used - written) if lifetime(index) in variables]
    outputs = [
        index
        for index in sorted(written)
        if lifetime(index) is Lifetime.SUBGRAPH_OUTPUT or index in read_outside
    ]
    part = ModelPart(model)
    main = part.graph(graph, kept, inputs, outputs)
    referenced = part.referenced()
    return Model(main=main, referenced=referenced, pools=part.pools(), relaxed=model.relaxed)
