"""Finds facts that a user of a model should know before preparing it."""

from collections.abc import Iterator
from typing import Final

from neurald.hal.accounting.limits import Limits
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.operations import DEFINITIONS
from neurald.hal.wording import counted
from neurald.service.inspection.summary import ModelSummary, is_open

#: How many names a finding lists.
_MAX_NAMES: Final = 4
#: What converters put between constants that are stored in fewer bits and what reads them.
_CONVERSIONS: Final = ("CAST", "DEQUANTIZE")


def findings(model: Model, summary: ModelSummary) -> Iterator[str]:
    """Yields sentences about a model.

    Args:
        model: a valid model.
        summary: its summary.
    """
    opened = [each.name for each in summary.inputs if is_open(each)]
    if opened:
        yield (
            f"{_listed('input', opened)}: lengths are open; values for them are compiled once where the device "
            "can, and `load_tflite(shapes=…)` sets them"
        )
    if summary.state:
        yield (
            f"{_listed('variable', summary.state)}: an execution depends on those before it; "
            "use one compilation for each stream of inputs"
        )
    if any(_is_random(operation) for graph in _graphs(model) for operation in graph.operations):
        yield "the model draws random numbers, so that executions differ"
    yield from _without_use(model)
    if (stored := _stored_elsewhere(model)) is not None:
        yield stored
    size = sum(size for _, size in summary.constants.values())
    if size > (limit := Limits().model_bytes):
        yield f"constants have {size} bytes; daemons accept {limit} (`--limit model_bytes`)"
    if not model.main.operations:
        yield "the model has no operations; its outputs are inputs or constants"


def _graphs(model: Model) -> tuple[Subgraph, ...]:
    return (model.main, *model.referenced)


def _is_random(operation: Operation) -> bool:
    definition = DEFINITIONS.get(operation.type)
    return definition is not None and definition.is_random


def _without_use(model: Model) -> Iterator[str]:
    """Yields what nothing reads: inputs, and operations of which no result is used."""
    for number, graph in enumerate(_graphs(model)):
        where = "" if number == 0 else f" of graph {number}"
        read = {index for operation in graph.operations for index in operation.inputs}
        used = read.union(graph.outputs)
        unread = [graph.operands[index].name or str(index) for index in graph.inputs if index not in used]
        if unread and number == 0:
            yield f"{_listed('input', unread)}: nothing depends on it"
        idle = [
            f"{operation.type.name} {position}"
            for position, operation in enumerate(graph.operations)
            if used.isdisjoint(operation.outputs)
        ]
        if idle:
            yield f"{_listed('operation', idle)}{where}: the results are not used"


def _stored_elsewhere(model: Model) -> str | None:
    """Describes constants that are converted before they are used."""
    count = 0
    for graph in _graphs(model):
        for operation in graph.operations:
            if operation.type.name in _CONVERSIONS:
                source = graph.operands[operation.inputs[0]]
                count += source.lifetime in (Lifetime.CONSTANT_COPY, Lifetime.CONSTANT_POOL)
    if not count:
        return None
    return (
        f"{counted(count, 'constant')} {'is' if count == 1 else 'are'} stored in another type than "
        "operations compute with, and converted once"
    )


def _listed(noun: str, names: "list[str] | tuple[str, ...]") -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return f"{counted(len(names), noun)} ({shown}{', …' if len(names) > _MAX_NAMES else ''})"
