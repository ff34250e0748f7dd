"""Makes values inside of a model further outputs."""

import difflib
from collections.abc import Sequence
from typing import Final

from neurald.hal.api_arguments import shown
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model

#: How many names a message lists of all that a value could be kept by.
_MAX_LISTED: Final = 5


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
            raise BadData(_reason(name, operands, len(indexes)))
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


def _reason(name: str, operands: Sequence[Operand], count: int) -> str:
    """Says why a name is not that of exactly one result, and lists the names most like it."""
    if count:
        return f"{count} results of operations are named {shown(name)}; the name of a single one is expected"
    known = sorted(
        {each.name for each in operands if each.name and each.lifetime is Lifetime.TEMPORARY_VARIABLE},
        key=lambda each: (len(each), each),
    )
    if not known:
        return f"no result is named {shown(name)}: no result inside of the model has a name"
    containing = [each for each in known if name.lower() in each.lower()]
    close = difflib.get_close_matches(name, known, _MAX_LISTED)
    listed = list(dict.fromkeys((*containing, *close, *known)))[:_MAX_LISTED]
    others = len(known) - len(listed)
    more = f", and {others} others, which `neurald inspect --operations` lists" if others else ""
    return f"no result is named {shown(name)}; there are {', '.join(map(shown, listed))}{more}"
