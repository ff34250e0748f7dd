"""Nests of loops over elements of operands with strides, as words of kernels.

Loops that are one for all operands are merged. `NEST` remain, the inner one last. The two inner
ones are a work item. The words are the number of elements of the output, the lengths, and the
strides of each operand.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from neurald.drivers.cpu.first_tier.bound_call import NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK, NEST
from neurald.hal.operations.machinery.call import Shape

#: Length, and stride of each operand.
Loop = tuple[int, tuple[int, ...]]
_FLAT: Final = 2
#: Number of elements below which a loop of single elements takes as long as one of vectors.
_FEW: Final = 8
#: Number of elements of a work item below which finding its place takes longer than moving them,
#: and up to which they stay in a near cache, where other loops come back to them.
_FEW_OF_ITEM, _MANY_OF_ITEM = 128, 4 * BLOCK
#: How many nests are remembered.
_MAX_KNOWN: Final = 256


def strides_of(shape: Shape) -> list[int]:
    """Returns the strides of a dense array."""
    strides, step = [0] * len(shape), 1
    for dimension in reversed(range(len(shape))):
        strides[dimension] = step
        step *= shape[dimension]
    return strides


def repeated_strides(given: Shape, shape: Shape) -> list[int]:
    """Returns the strides of a dense array that is repeated to another shape."""
    own = strides_of(given)
    missing = len(shape) - len(given)
    return [0] * missing + [stride if length != 1 else 0 for stride, length in zip(own, given, strict=True)]


@lru_cache(_MAX_KNOWN)
def nest_of_elements(shape: Shape, given: tuple[Shape, ...]) -> tuple[tuple[int, ...], int]:
    """Returns the nest of an operation on elements, see `nest`; networks repeat few shapes.

    Args:
        shape: the shape of the output, which has elements.
        given: the shapes of inputs, which are repeated to that shape.

    Raises:
        NotBound: see `nest`.
    """
    return nest(shape, [repeated_strides(each, shape) for each in given])


def nest(
    shape: Shape, strides: Sequence[Sequence[int]], count: int | None = None, *, any_order: bool = False
) -> tuple[tuple[int, ...], int]:
    """Returns the words of a nest, and the number of work items.

    Args:
        shape: the lengths of loops; none is 0.
        strides: the strides of each operand.
        count: the count of elements, if the last line has fewer; else None.
        any_order: True if the loops may be in any order.

    Raises:
        NotBound: too many loops cannot be merged.
    """
    loops = merged_loops(shape, strides)
    if len(loops) > NEST:
        raise NotBound("there are too many dimensions")
    if any_order:
        _move_longest_inside(loops)
    count = math.prod(shape) if count is None else count
    loops = _divided(loops, len(strides))
    lengths = [length for length, _ in loops]
    columns = [[step[number] for _, step in loops] for number in range(len(strides))]
    return (count, *lengths, *(word for column in columns for word in column)), math.prod(lengths[:-2])


def merged_loops(shape: Shape, strides: Sequence[Sequence[int]]) -> list[Loop]:
    """Returns loops over elements, the inner one last, joined where all operands permit.

    Args:
        shape, strides: see `nest`.
    """
    loops: list[Loop] = []
    for dimension, length in enumerate(shape):
        if length == 1:
            continue
        step = tuple(each[dimension] for each in strides)
        if loops:
            outer, above = loops[-1]
            if all(one == other * length for one, other in zip(above, step, strict=True)):
                loops[-1] = outer * length, step
                continue
        loops.append((length, step))
    return loops


def _move_longest_inside(loops: list[Loop]) -> None:
    """Moves loops inside: one with neighbours in all operands, or a long one with some in any.

    If that and the loop around it have few elements, another loop with more is moved around it.
    """

    def preference(loop: Loop) -> tuple[bool, bool, int]:
        length, step = loop
        is_dense = all(each == 1 for each in step)
        return is_dense and length >= _FEW, any(each == 1 for each in step), length

    if len(loops) > 1:
        inner = max(loops, key=preference)
        loops.remove(inner)
        loops.append(inner)
        if loops[-2][0] * inner[0] < _FEW_OF_ITEM:
            for around in reversed(loops[:-1]):
                if _FEW_OF_ITEM <= around[0] * inner[0] <= _MANY_OF_ITEM:
                    loops.remove(around)
                    loops.insert(len(loops) - 1, around)
                    return


def _divided(loops: list[Loop], operands: int) -> list[Loop]:
    """Returns `NEST` loops, whose outer ones are blocks of a long loop if it is the outer one.

    The last block of a loop may be longer than what is left of it.
    """
    none: Loop = 1, (0,) * operands
    loops = loops or [none]
    if len(loops) <= _FLAT:
        (length, step), *inner = loops
        lines = max(1, BLOCK // math.prod(each for each, _ in inner))
        if length > lines:
            outer = -(-length // lines), tuple(each * lines for each in step)
            # Blocks of elements are inner loops; blocks of lines have another loop inside.
            loops = [outer, (lines, step), *inner] if inner else [outer, none, (lines, step)]
    return [none] * (NEST - len(loops)) + loops
