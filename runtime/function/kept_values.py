"""Makes values inside of a model further outputs."""

from collections.abc import Sequence

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model


def with_outputs(model: Model, names: Sequence[str]) -> Model:
    """Returns a model with the operands of those names as outputs after its own.

    Args:
        model: a valid model; it is not changed.
        names: the names of results of operations of the main graph.

    Raises:
        BadData: there is no such result, or there are several.
    """
    if not names:
        return model
    graph = model.main
    operands = list(graph.operands)
    found: list[int] = []
    for name in names:
        indexes = [
            index
            for index, operand in enumerate(operands)
            if operand.name == name
            and operand.lifetime in (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)
        ]
        if len(indexes) != 1:
            known = sorted(
                {each.name for each in operands if each.name and each.lifetime is Lifetime.TEMPORARY_VARIABLE}
            )
            shown = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
            raise BadData(
                f"there are {len(indexes)} results of the name {name!r}; exactly one is expected. "
                f"There are: {shown or 'none with a name'}"
            )
        found += indexes
        operands[indexes[0]] = replace(operands[indexes[0]], lifetime=Lifetime.SUBGRAPH_OUTPUT)
    own, state = model.outputs, graph.outputs[len(model.outputs) :]
    further = tuple(index for index in dict.fromkeys(found) if index not in graph.outputs)
    outputs = (*own, *further, *state)
    own_names = model.output_names or tuple(graph.operands[index].name for index in own)
    result = replace(
        model,
        main=replace(graph, operands=tuple(operands), outputs=outputs),
        output_names=(*own_names, *(operands[index].name for index in further)),
    )
    validate_model(result)
    return result
