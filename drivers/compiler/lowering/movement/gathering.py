"""Rows picked by index or key: GATHER, EMBEDDING_LOOKUP, HASHTABLE_LOOKUP."""

import math
from collections.abc import Callable, Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, axis, constant, load, reduce, select
from neurald.drivers.compiler.ir.op import Fold
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import as_index, element, picked
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.gathering import gather_axis

#: Gives an element of the result from the position of what is picked.
Read = Callable[[Sequence[Expression]], Expression]
#: Elements for each index from which on indexes are looked at by themselves.
_MANY = 8


def are_inside(indices: Value, length: int) -> bool:
    """Whether the indexes are known, and positions on an axis of that length all of them."""
    known = indices.constant
    return known is not None and not ((known < 0) | (known >= length)).any()


def gathered(
    call: Call,
    builder: Builder,
    name: str,
    along: int,
    batches: int = 0,
    read: Read | None = None,
) -> Value:
    """What indexes pick along an axis of `values`.

    Indexes that stand for many elements each are looked at beforehand, one by one. What picks then only moves elements, and is
    computed wherever it is read.

    Args:
        call, builder: the operation.
        name: of the input that has the indexes.
        along: the axis.
        batches: how many axes, the first ones, both have in common.
        read: gives the element of the result from its position in `values`; it is moved as it is where this is left out.
    """
    values, indices = builder.value(call, "values"), builder.value(call, name)
    length = values.shape[along]
    end = along + len(indices.shape) - batches
    message = f"{call.name(name)}: indexes from 0 to {length - 1} are expected"
    is_safe = are_inside(indices, length)
    if not is_safe and length and values.count >= _MANY * length * math.prod(values.shape[:batches]):
        indices, is_safe = _inside(builder, indices, length, message), True

    def number(at: Sequence[Expression]) -> Expression:
        return element(indices, (*at[:batches], *at[along:end]))

    def moved(position: Sequence[Expression]) -> Expression:
        return load(values, tuple(position)) if length else constant(0, values.type)

    def body(*at: Expression) -> Expression:
        place = as_index(number(at), 0, length) if is_safe else picked(number(at), length)[0]
        return (read or moved)((*at[:along], place, *at[end:]))

    def requirements(*at: Expression) -> Sequence[tuple[Expression, str]]:
        if is_safe:
            return ()
        return ((picked(number(at), length)[1], message),)

    shape = (*values.shape[:along], *indices.shape[batches:], *values.shape[along + 1 :])
    return builder.compute(shape, body, requirements)


def _inside(builder: Builder, indices: Value, length: int, message: str) -> Value:
    """Indexes that are required to be positions on an axis of that length."""

    def body(*at: Expression) -> Expression:
        return picked(load(indices, at), length)[0].to(Scalar.INT32)

    def requirements(*at: Expression) -> Sequence[tuple[Expression, str]]:
        return ((picked(load(indices, at), length)[1], message),)

    return builder.compute(indices.shape, body, requirements)


def _gather(call: Call, builder: Builder) -> tuple[Value, ...]:
    return (gathered(call, builder, "indices", gather_axis(call)),)


def _embedding_lookup(call: Call, builder: Builder) -> tuple[Value, ...]:
    return (gathered(call, builder, "lookups", 0),)


def hashtable_lookup(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers HASHTABLE_LOOKUP: each key is looked for among all, of equal ones the first."""
    lookups, keys, values = (builder.value(call, name) for name in ("lookups", "keys", "values"))
    count = keys.shape[0]

    def place(at: Expression) -> Expression:
        each = axis(count, "k")
        is_key = load(keys, (each,)).equals(load(lookups, (at,)))
        return reduce(Fold.MINIMUM, (each,), select(is_key, each.to(Scalar.INT32), count))

    # Where there is no such key, the place is behind the last one.
    places = builder.compute(lookups.shape, place)

    def row(*at: Expression) -> Expression:
        if not values.count:
            return constant(0, values.type)
        found = load(places, at[:1]).to(Scalar.INDEX)
        return load(values, (found, *at[1:]), found < count)

    def hit(at: Expression) -> Expression:
        return (load(places, (at,)) < count).to(Scalar.UINT8)

    return builder.compute((*lookups.shape, *values.shape[1:]), row), builder.compute(lookups.shape, hit)


LOWERINGS = {
    OperationType.GATHER: _gather,
    OperationType.EMBEDDING_LOOKUP: _embedding_lookup,
    OperationType.HASHTABLE_LOOKUP: hashtable_lookup,
}
