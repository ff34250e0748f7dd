"""Lowers GATHER, EMBEDDING_LOOKUP and HASHTABLE_LOOKUP."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from neurald.drivers.compiler.ir.algorithm import KeySearch
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    clamp,
    constant,
    load,
    minimum,
    select,
)
from neurald.drivers.compiler.ir.extents.extent import estimate, has_extents, surely_lowest
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import as_index, bounded_index, element
from neurald.drivers.compiler.passes.expansion.key_search_expansion import compared_with_all
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.movement.gather import gather_axis

#: Computes an element of the result from an index into the values.
Read = Callable[[Sequence[Expression]], Expression]
#: Minimum number of elements per index for which a separate kernel checks the indices.
_MIN_ELEMENTS_PER_CHECK = 8
#: Minimum number of keys that are searched, so that a key is not compared with all.
_MIN_SEARCHED_KEYS = 256


def are_in_range(indices: Value, length: int) -> bool:
    """Returns True if the indices are known and in range, however short an open length is."""
    known = indices.constant
    if known is None:
        return False
    return not known.size or (int(known.min()) >= 0 and int(known.max()) < surely_lowest(length))


def gathered(
    call: Call,
    builder: Builder,
    name: str,
    along: int,
    batches: int = 0,
    read: Read | None = None,
) -> Value:
    """Gathers from `values` along an axis.

    Indices that each stand for many elements are checked in advance. The gather is then pure data
    movement, which fuses into its readers.

    Args:
        call, builder: the operation.
        name: the name of the input with the indices.
        along: the axis.
        batches: number of leading axes that both inputs share.
        read: computes an element of the result from its index in `values`; by default loads it.
    """
    values, indices = builder.value(call, "values"), builder.value(call, name)
    length = values.shape[along]
    end = along + len(indices.shape) - batches
    message = f"{call.name(name)}: indexes from 0 to {length - 1} are expected"
    is_safe = are_in_range(indices, length)
    rows = estimate(length) * math.prod(map(estimate, values.shape[:batches]))
    if not is_safe and length and estimate(values.count) >= _MIN_ELEMENTS_PER_CHECK * rows:
        indices, is_safe = _inside(builder, indices, length, message), True

    def number(at: Sequence[Expression]) -> Expression:
        return element(indices, (*at[:batches], *at[along:end]))

    def moved(position: Sequence[Expression]) -> Expression:
        return load(values, tuple(position)) if length else constant(0, values.type)

    def body(*at: Expression) -> Expression:
        index = as_index(number(at), 0, length) if is_safe else bounded_index(number(at), length)[0]
        return (read or moved)((*at[:along], index, *at[end:]))

    def requirements(*at: Expression) -> Sequence[tuple[Expression, str]]:
        if is_safe:
            return ()
        return ((bounded_index(number(at), length)[1], message),)

    shape = (*values.shape[:along], *indices.shape[batches:], *values.shape[along + 1 :])
    return builder.compute(shape, body, requirements)


def _inside(builder: Builder, indices: Value, length: int, message: str) -> Value:
    """Returns the indices, with the requirement that they are in range."""

    def body(*at: Expression) -> Expression:
        return bounded_index(load(indices, at), length)[0].to(Scalar.INT32)

    def requirements(*at: Expression) -> Sequence[tuple[Expression, str]]:
        return ((bounded_index(load(indices, at), length)[1], message),)

    return builder.compute(indices.shape, body, requirements)


def _gather(call: Call, builder: Builder) -> tuple[Value, ...]:
    return (gathered(call, builder, "indices", gather_axis(call)),)


def _embedding_lookup(call: Call, builder: Builder) -> tuple[Value, ...]:
    return (gathered(call, builder, "lookups", 0),)


def hashtable_lookup(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers HASHTABLE_LOOKUP; the first match wins."""
    lookups, keys, values = (builder.value(call, name) for name in ("lookups", "keys", "values"))
    count = keys.shape[0]
    indexes = first_indexes(builder, lookups, keys)

    def row(*at: Expression) -> Expression:
        if not values.count:
            return constant(0, values.type)
        found = load(indexes, at[:1]).to(Scalar.INDEX)
        return load(values, (found, *at[1:]), found < count)

    def hit(at: Expression) -> Expression:
        return (load(indexes, (at,)) < count).to(Scalar.UINT8)

    return builder.compute((*lookups.shape, *values.shape[1:]), row), builder.compute(lookups.shape, hit)


def first_indexes(builder: Builder, lookups: Value, keys: Value) -> Value:
    """Returns the first index of each key, INT32; the number of keys for missing ones.

    Args:
        builder: the builder of the operation.
        lookups, keys: rows of integers.
    """
    if keys.constant is not None and keys.count >= _MIN_SEARCHED_KEYS:
        return _search(builder, lookups, keys.constant)
    if not has_extents((keys.count, lookups.count)) and keys.count >= _MIN_SEARCHED_KEYS and lookups.count:
        return builder.procedure(KeySearch(), keys, lookups, output=lookups.shape)
    return compared_with_all(builder, lookups, keys)


def _search(builder: Builder, lookups: Value, keys: Array) -> Value:
    """Returns the first index of each key, which is searched for among the sorted keys."""
    # Equal keys keep their order.
    order = np.argsort(keys, kind="stable").astype(np.int32)
    ordered, places = builder.constant(keys[order]), builder.constant(order)
    count = len(order)

    def place(at: Expression) -> Expression:
        """Returns the number of keys that are smaller."""
        key = load(lookups, (at,))
        found: Expression = constant(0, Scalar.INDEX)
        for power in reversed(range(count.bit_length())):
            following = found + (1 << power)
            is_smaller = load(ordered, (minimum(following, count) - 1,)) < key
            found = select((following <= count) & is_smaller, following, found)
        return found.to(Scalar.INT32)

    smaller = builder.compute(lookups.shape, place)

    def index(at: Expression) -> Expression:
        found = clamp(load(smaller, (at,)).to(Scalar.INDEX), 0, count - 1)
        is_key = load(ordered, (found,)).equals(load(lookups, (at,)))
        return select(is_key, load(places, (found,)), count)

    return builder.compute(lookups.shape, index)


LOWERINGS = {
    OperationType.GATHER: _gather,
    OperationType.EMBEDDING_LOOKUP: _embedding_lookup,
    OperationType.HASHTABLE_LOOKUP: hashtable_lookup,
}
