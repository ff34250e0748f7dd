"""Turns an IF into a branch between two regions of a flat graph.

Results of which the two sides have different lengths have symbols for them, which each side sets.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import (
    FlatGraph,
    NotStructured,
    ShapeChanges,
)
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.control_flow.structured_model import Branch, Copy, LengthUpdate
from neurald.drivers.compiler.ir.extents.extent import number_of, same_length
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

if TYPE_CHECKING:
    # Making a protocol takes long.
    from neurald.drivers.compiler.frontend.control_flow.inlining.inlines_graphs import InlinesGraphs


def add_branch(
    flat: FlatGraph,
    symbols: LengthSymbols,
    operands: StoredOperands,
    inliner: "InlinesGraphs",
    call: Call,
    origin: int,
) -> Sequence[int]:
    """Adds an IF to a flat graph: only the side that runs, if its condition is known.

    Args:
        flat: the flat graph.
        symbols: the symbols of its lengths.
        operands: its operands that have no memory yet.
        inliner: inlines the sides.
        call: the IF.
        origin: see `InlinesGraphs.inline`.

    Returns:
        Its results.

    Raises:
        NotStructured: the condition is not a single BOOL, or the sides have results of different
            ranks.
    """
    condition = call.index("condition")
    inputs = [operands.realized(each) for each in inputs_of(call)]
    known = flat.known.get(condition)
    if known is not None:
        name = "then" if is_true(flat, condition) else "else"
        return inliner.inline(call.graph_index(name), inputs, origin)
    require_bool(flat, condition)
    with flat.region(repeats=False) as then:
        first = [operands.stored(each) for each in inliner.inline(call.graph_index("then"), inputs, origin)]
    with flat.region(repeats=False) as otherwise:
        second = [operands.stored(each) for each in inliner.inline(call.graph_index("else"), inputs, origin)]
    results: list[int] = []
    joined = [
        _joined_shape(flat, one, other) for one, other in zip(first, second, strict=True) if one != other
    ]
    added = {key: symbols.symbol() for shape in joined for key in shape if isinstance(key, tuple)}
    numbers = [(number_of(symbol), key) for key, symbol in added.items()]
    if numbers:
        then.items.append(LengthUpdate(lengths=tuple((each, one) for each, (one, _) in numbers)))
        otherwise.items.append(LengthUpdate(lengths=tuple((each, two) for each, (_, two) in numbers)))
    shapes = iter(joined)
    for one, other in zip(first, second, strict=True):
        if one == other:
            results.append(one)
            continue
        shape = tuple(added[each] if isinstance(each, tuple) else each for each in next(shapes))
        variable = flat.variable(one, shape)
        then.items.append(Copy(target=variable, source=one))
        otherwise.items.append(Copy(target=variable, source=other))
        results.append(variable)
    flat.regions[-1].items.append(
        Branch(condition=condition, then=then.finished(), otherwise=otherwise.finished(), origin=origin)
    )
    return results


def is_true(flat: FlatGraph, condition: int) -> bool:
    """Returns the value of a condition that is known.

    Raises:
        NotStructured: it is not a single BOOL.
    """
    value = flat.known[condition]
    if value.size != 1:
        raise NotStructured("a condition is not a single BOOL")
    return bool(value.reshape(-1)[0])


def require_bool(flat: FlatGraph, index: int) -> None:
    """Checks that an operand can be a condition.

    Raises:
        NotStructured: it is not a single BOOL.
    """
    if flat.operands[index].type is not OperandType.TENSOR_BOOL8 or int(np.prod(flat.shape(index))) != 1:
        raise NotStructured("a condition is not a single BOOL")


def inputs_of(call: Call) -> Sequence[int]:
    """Returns the operands that an IF or a WHILE passes to its graphs."""
    return call.indexes("inputs") if "inputs" in call.binding.inputs else ()


def _joined_shape(flat: FlatGraph, one: int, other: int) -> tuple[Any, ...]:
    """Returns the shape of a result of an IF; pairs of lengths where its sides differ."""
    first, second = flat.shape(one), flat.shape(other)
    if len(first) != len(second):
        raise ShapeChanges("the sides of an IF have results of different ranks")
    return tuple(
        length if same_length(length, found) else (length, found)
        for length, found in zip(first, second, strict=True)
    )
