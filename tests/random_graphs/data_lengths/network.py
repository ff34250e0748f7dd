"""Random networks whose lengths follow from data, with branches and loops.

An operation may find any number of rows, down to none; others are joined with them, reduce them,
move them, or compute sizes of further tensors from them. Executions that a network refuses are part
of what is compared: some sizes do not fit.
"""

import random
from itertools import count
from typing import Any

import numpy as np
from random_graphs.data_lengths import (
    arithmetic,
    control_flow,
    finding,
    moving,
    sizing,
    windows,
)
from random_graphs.data_lengths.graph import MODULUS, DataGraph, Layer, Length, Tensor
from random_graphs.data_lengths.inexact import inexact
from random_graphs.data_lengths.quantised import quantised
from support.tflite.builder import TfliteGraph, TfliteModel

from neurald.hal.operations.machinery.call import Array

#: Lengths of open dimensions of inputs, from which executions choose.
_LENGTHS = (0, 1, 2, 3, 5, 8, 13, 16, 19, 32, 33, 64)
#: What graphs grow by; some of it more often.
_LAYERS: tuple[Layer, ...] = (
    *2 * (finding.places, finding.segments),
    finding.distinct,
    finding.largest,
    sizing.counted,
    sizing.filled,
    sizing.tiled,
    sizing.padded,
    sizing.sliced,
    sizing.broadcast,
    sizing.one_hot,
    sizing.scattered,
    *2 * (arithmetic.combined, arithmetic.multiplied),
    arithmetic.selected,
    arithmetic.turned,
    arithmetic.reduced,
    arithmetic.changed,
    arithmetic.floating,
    arithmetic.tested,
    *2 * (moving.joined,),
    moving.transposed,
    moving.reshaped,
    moving.stacked,
    moving.parted,
    moving.mirrored,
    moving.updated,
    moving.looked_up,
    moving.picked,
    moving.turned_parts,
    moving.diagonal,
    windows.convolved,
    windows.pooled,
    windows.transposed_windows,
    windows.resized,
    windows.blocks,
    *2 * (quantised, inexact),
    *2 * (control_flow.looped,),
    control_flow.branched,
)


def _needed(graph: TfliteGraph) -> list[Any]:
    """Returns the operators on which the outputs of a graph depend.

    A plan may run others, or not.
    """
    wanted, found = {*graph.outputs}, []
    for operator in reversed(graph.operators):
        if not wanted.isdisjoint(operator.outputs):
            wanted.update(operator.inputs)
            found.append(operator)
    return found[::-1]


class DataNetwork:
    """A network; the seed determines it.

    Attributes:
        file: the network.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.file = TfliteModel()
        graph = DataGraph(self.file, self._rng, count(1), _LAYERS)
        self._lengths: dict[Length, None] = {}
        self._shapes = [self._shape(graph) for _ in range(self._rng.randint(1, 3))]
        graph.values = [graph.tensor(shape) for shape in self._shapes]
        graph.graph.inputs = [each.index for each in graph.values]
        if self._rng.random() < 0.3:
            numbers = [self._rng.randint(0, 9) for _ in range(self._rng.choice((0, 1, 5, 8)))]
            graph.values.append(Tensor(graph.constant(numbers), (len(numbers),)))
        graph.grow(self._rng.randint(3, 10))
        results = [each for each in graph.values[len(self._shapes) :] if each.index not in graph.read]
        chosen = [each.index for each in results if each.index not in graph.graph.inputs]
        leaves = [each.index for each in graph.leaves]
        graph.graph.outputs = list(dict.fromkeys((chosen or [graph.values[-1].index]) + leaves))
        for each in self.file.graphs:
            each.operators = _needed(each)

    def _shape(self, graph: DataGraph) -> tuple[int | Length, ...]:
        rank = self._rng.choice((1, 1, 1, 2, 2, 3))
        return tuple(self._length(graph) for _ in range(rank))

    def _length(self, graph: DataGraph) -> int | Length:
        kind = self._rng.random()
        if kind < 0.3 and self._lengths:
            return self._rng.choice(list(self._lengths))
        if kind < 0.6:
            length = graph.length(_LENGTHS[-1])
            self._lengths[length] = None
            return length
        return self._rng.choice((1, 2, 3, 4, 7, 8, 12, 16, 32))

    def arrays(self, number: int) -> list[Array]:
        """Returns the inputs of an execution, whose number determines lengths and contents."""
        rng = np.random.default_rng(number)
        lengths = {each: int(rng.choice(_LENGTHS)) for each in self._lengths}
        shapes = [
            [lengths[each] if isinstance(each, Length) else each for each in shape] for shape in self._shapes
        ]
        most = int(rng.choice((1, 9, MODULUS)))
        return [rng.integers(0, most, shape).astype(np.int32) for shape in shapes]
