"""Outputs between bytes that executions must leave alone."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from support.models.plans import executed

import neurald as nd
from neurald.hal.operations.machinery.call import Array

#: Bytes before and behind outputs.
_MARGIN, _MARK = 1024, 0x5A


class MarkedOutputs:
    """Outputs between marks.

    Args:
        sizes: the number of elements of each output.
        types: their types.

    Attributes:
        arrays: the outputs, of one dimension each.
    """

    def __init__(self, sizes: Sequence[int], types: Sequence[np.dtype[Any]]) -> None:
        lengths = [size * kind.itemsize for size, kind in zip(sizes, types, strict=True)]
        ends = np.cumsum([0, *(_MARGIN + -(-each // 64) * 64 for each in lengths)])
        self._memory = np.full(int(ends[-1]) + _MARGIN, _MARK, np.uint8)
        self._is_mark = np.ones(self._memory.size, np.bool_)
        self.arrays: list[Array] = []
        for (start, _), length, kind in zip(pairwise(ends.tolist()), lengths, types, strict=True):
            place = slice(start + _MARGIN, start + _MARGIN + length)
            self._is_mark[place] = False
            self.arrays.append(self._memory[place].view(kind))

    def clear(self) -> None:
        """Removes earlier results."""
        self._memory[:] = _MARK

    @property
    def are_left(self) -> bool:
        """True if nothing beside the outputs was written."""
        return bool((self._memory[self._is_mark] == _MARK).all())


def executed_within_marks(
    compilation: nd.Compilation, arrays: Sequence[Array], wanted: Sequence[Array]
) -> tuple[list[Array], bool]:
    """Executes with outputs between marks, of the shapes of `wanted`.

    Returns:
        The outputs, and whether nothing beside them was written.
    """
    marked = MarkedOutputs([each.size for each in wanted], [each.dtype for each in wanted])
    outputs = [found.reshape(each.shape) for found, each in zip(marked.arrays, wanted, strict=True)]
    executed(compilation, arrays, outputs)
    return outputs, marked.are_left
