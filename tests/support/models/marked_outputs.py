"""Outputs between bytes that executions must leave alone."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from support.models.plans import executed

import neurald as nd
from neurald.hal.operations.machinery.call import Array

#: Bytes before and behind outputs.
_MARGIN, _MARK = 1024, 0x5A


def executed_within_marks(
    compilation: nd.Compilation, arrays: Sequence[Array], wanted: Sequence[Array]
) -> tuple[list[Array], bool]:
    """Executes with outputs between marks; returns them, and whether the marks were left alone."""
    ends = np.cumsum([0, *(_MARGIN + -(-each.nbytes // 64) * 64 for each in wanted)])
    memory = np.full(int(ends[-1]) + _MARGIN, _MARK, np.uint8)
    is_mark = np.ones(memory.size, np.bool_)
    outputs = []
    for (start, _), each in zip(pairwise(ends.tolist()), wanted, strict=True):
        place = slice(start + _MARGIN, start + _MARGIN + each.nbytes)
        is_mark[place] = False
        outputs.append(memory[place].view(each.dtype).reshape(each.shape))
    executed(compilation, arrays, outputs)
    return outputs, bool((memory[is_mark] == _MARK).all())
