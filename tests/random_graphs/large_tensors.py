"""Random networks of moves, sums and concatenations of tensors with thousands of elements.

The other random graphs have small tensors, which the compiler treats differently: it concatenates
large results in place, reduces long axes with several accumulators, and divides rows among bands.
All numbers are integers, so that results have the same bits however they are computed.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.tflite.builder import TfliteModel

from neurald.hal.operations.machinery.call import Array

#: Shapes of inputs.
_SHAPES = ((1, 20, 24, 8), (180, 24), (2, 90, 33), (4, 13, 11, 12))
#: Layers may have this many elements.
_MAX_ELEMENTS = 40_000
#: Sums are reduced modulo this number.
_MODULUS = 9973


@dataclass(frozen=True, slots=True)
class _Tensor:
    index: int
    shape: tuple[int, ...]


class LargeNetwork:
    """A network; the seed determines it.

    Attributes:
        file: the network.
        input: an array for its input.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.file = TfliteModel()
        self._graph = self.file.subgraph()
        shape = self._rng.choice(_SHAPES)
        self.input: Array = np.random.default_rng(seed).integers(-60, 60, shape).astype(np.int32)
        first = self._tensor(shape)
        self._values, self._read = [first], set[int]()
        for _ in range(self._rng.randint(8, 20)):
            self._add_layer()
        self._graph.inputs = (first.index,)
        self._graph.outputs = tuple(
            each.index
            for each in self._values[1:]
            if each.index not in self._read or self._rng.random() < 0.1
        )

    def _tensor(self, shape: tuple[int, ...]) -> _Tensor:
        return _Tensor(self._graph.tensor(shape, "INT32"), tuple(shape))

    def _constant(self, numbers: Any) -> int:
        return self._graph.tensor(np.shape(numbers), "INT32", data=np.asarray(numbers), has_rank=True)

    def _result(
        self, code: str, inputs: list[int], shape: tuple[int, ...], options: str | None = None, **values: Any
    ) -> _Tensor:
        result = self._tensor(shape)
        self._graph.operator(code, inputs, (result.index,), options, **values)
        self._read.update(inputs)
        return result

    def _add_layer(self) -> None:
        """Adds a layer to a value, mostly to the last one."""
        source = self._values[-1] if self._rng.random() < 0.65 else self._rng.choice(self._values)
        layers: tuple[Callable[[_Tensor], _Tensor | None], ...] = (
            self._padded,
            self._sliced,
            self._concatenated,
            self._transposed,
            self._reduced,
            self._combined,
            self._gathered,
        )
        result = self._rng.choice(layers)(source)
        if result is not None:
            self._values.append(result)

    def _padded(self, source: _Tensor) -> _Tensor | None:
        pads = [[self._rng.randint(0, 3), self._rng.randint(0, 3)] for _ in source.shape]
        shape = tuple(length + sum(pad) for length, pad in zip(source.shape, pads, strict=True))
        if np.prod(shape) > _MAX_ELEMENTS:
            return None
        return self._result("PAD", [source.index, self._constant(pads)], shape, "PadOptions")

    def _sliced(self, source: _Tensor) -> _Tensor:
        steps = [self._rng.choice((1, 1, 2, -1)) for _ in source.shape]
        ends = [0] * len(steps)
        every = (1 << len(steps)) - 1
        return self._result(
            "STRIDED_SLICE",
            [source.index, *(self._constant(each) for each in (ends, ends, steps))],
            tuple(-(-length // abs(step)) for length, step in zip(source.shape, steps, strict=True)),
            "StridedSliceOptions",
            BeginMask=every,
            EndMask=every,
        )

    def _concatenated(self, source: _Tensor) -> _Tensor | None:
        along = self._rng.randrange(len(source.shape))

        def others(shape: tuple[int, ...]) -> tuple[int, ...]:
            return (*shape[:along], *shape[along + 1 :])

        rank = len(source.shape)
        fitting = [
            each
            for each in self._values
            if len(each.shape) == rank and others(each.shape) == others(source.shape)
        ]
        parts = self._rng.sample(fitting, min(len(fitting), self._rng.randint(2, 4)))
        shape = list(source.shape)
        shape[along] = sum(part.shape[along] for part in parts)
        if len(parts) < 2 or np.prod(shape) > _MAX_ELEMENTS:
            return None
        indices = [part.index for part in parts]
        return self._result("CONCATENATION", indices, tuple(shape), "ConcatenationOptions", Axis=along)

    def _transposed(self, source: _Tensor) -> _Tensor:
        order = self._rng.sample(range(len(source.shape)), len(source.shape))
        shape = tuple(source.shape[each] for each in order)
        return self._result("TRANSPOSE", [source.index, self._constant(order)], shape, "TransposeOptions")

    def _reduced(self, source: _Tensor) -> _Tensor:
        """Subtracts a reduction of some axes from a value."""
        rank = len(source.shape)
        axes = self._rng.sample(range(rank), self._rng.randint(1, rank))
        reduced = self._result(
            self._rng.choice(("SUM", "SUM", "REDUCE_MAX", "REDUCE_MIN")),
            [source.index, self._constant(axes)],
            tuple(1 if axis in axes else length for axis, length in enumerate(source.shape)),
            "ReducerOptions",
            KeepDims=True,
        )
        self._values.append(reduced)
        difference = self._result("SUB", [source.index, reduced.index], source.shape, "SubOptions")
        return self._result("FLOOR_MOD", [difference.index, self._constant(_MODULUS)], source.shape)

    def _combined(self, source: _Tensor) -> _Tensor:
        code = self._rng.choice(("ADD", "SUB", "MAXIMUM"))
        fitting = [each.index for each in self._values if each.shape == source.shape]
        row = [self._rng.randint(-40, 40) for _ in range(source.shape[-1])]
        other = self._constant(row) if self._rng.random() < 0.6 else self._rng.choice(fitting)
        options = {"ADD": "AddOptions", "SUB": "SubOptions"}.get(code)
        return self._result(code, [source.index, other], source.shape, options)

    def _gathered(self, source: _Tensor) -> _Tensor | None:
        along = self._rng.randrange(len(source.shape))
        places = [self._rng.randrange(source.shape[along]) for _ in range(self._rng.randint(2, 40))]
        shape = (*source.shape[:along], len(places), *source.shape[along + 1 :])
        if np.prod(shape) > _MAX_ELEMENTS:
            return None
        return self._result(
            "GATHER", [source.index, self._constant(places)], shape, "GatherOptions", Axis=along
        )
