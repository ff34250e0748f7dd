"""Graphs that grow by an operation at a time, and of whose lengths some are not known.

All numbers are small integers, so that results have the same bits however they are computed.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.tflite.builder import TfliteGraph, TfliteModel

#: Values of more elements, as far as known, are not used further.
_MAX_ELEMENTS = 20_000
#: Numbers are reduced modulo this number.
MODULUS = 97
_DTYPES: dict[str, type[Any]] = {
    "INT32": np.int32,
    "INT64": np.int64,
    "FLOAT32": np.float32,
    "INT8": np.int8,
    "BOOL": np.bool_,
}
_NUMBERS = {"FLOAT32": 0, "INT32": 2, "INT64": 4, "BOOL": 6}


@dataclass(frozen=True, slots=True)
class Length:
    """Length that is not known.

    Attributes:
        number: the same for lengths that are equal.
        most: about the largest length to be expected.
    """

    number: int
    most: int


def most_of(length: int | Length) -> int:
    """Returns about the largest length to be expected."""
    return length.most if isinstance(length, Length) else length


@dataclass(frozen=True, slots=True)
class Tensor:
    """Tensor of a graph, by its index."""

    index: int
    shape: tuple[int | Length, ...]
    type: str = "INT32"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def most(self) -> int:
        """About the largest number of elements to be expected."""
        return int(np.prod([most_of(each) for each in self.shape]))


#: Adds operations that use a value; returns their results.
Layer = Callable[["DataGraph", Tensor], Sequence[Tensor]]


class DataGraph:
    """A graph that grows.

    Attributes:
        rng: makes all choices.
        file: has the graph.
        layers: what the graph grows by.
        depth: number of graphs around this one.
        graph: what is written.
        values: what following operations may use.
        read: tensors that operations use.
        leaves: further results, which no operation uses.
    """

    def __init__(
        self,
        file: TfliteModel,
        rng: random.Random,
        numbers: Iterator[int],
        layers: Sequence[Layer],
        depth: int = 0,
    ) -> None:
        self.rng, self.file, self.layers, self.depth = rng, file, layers, depth
        self._numbers = numbers
        self.graph: TfliteGraph = file.subgraph()
        self.values: list[Tensor] = []
        self.read: set[int] = set()
        self.leaves: list[Tensor] = []

    def inner(self) -> "DataGraph":
        """Returns a new graph for an operation of this one."""
        return DataGraph(self.file, self.rng, self._numbers, self.layers, self.depth + 1)

    def grow(self, count: int) -> None:
        """Adds layers."""
        for _ in range(count):
            layer = self.rng.choice(self.layers)
            source = self.values[-1] if self.rng.random() < 0.6 else self.rng.choice(self.values)
            self.values += [each for each in layer(self, source) if each.most <= _MAX_ELEMENTS]

    def length(self, most: int) -> Length:
        """Returns a length of which nothing else is known."""
        return Length(next(self._numbers), max(most, 1))

    def tensor(self, shape: Sequence[int | Length], kind: str = "INT32", **quantization: Any) -> Tensor:
        """Adds a tensor."""
        known = [1 if isinstance(each, Length) else each for each in shape]
        signature = [-1 if isinstance(each, Length) else each for each in shape]
        index = self.graph.tensor(
            known,
            kind,
            shape_signature=signature if -1 in signature else None,
            has_rank=not shape,
            **quantization,
        )
        return Tensor(index, tuple(shape), kind)

    def constant(self, numbers: Any, kind: str = "INT32", **quantization: Any) -> int:
        """Adds a constant."""
        data = np.asarray(numbers, _DTYPES[kind])
        return self.graph.tensor(data.shape, kind, data=data, has_rank=not data.shape, **quantization)

    def add(
        self,
        code: str,
        inputs: Sequence[int],
        shape: Sequence[int | Length],
        options: str | None = None,
        *,
        kind: str = "INT32",
        quantization: dict[str, Any] | None = None,
        **values: Any,
    ) -> Tensor:
        """Adds an operation with one result."""
        result = self.tensor(shape, kind, **(quantization or {}))
        self.add_many(code, inputs, [result], options, **values)
        return result

    def add_many(
        self, code: str, inputs: Sequence[int], results: Sequence[Tensor], options: str | None, **values: Any
    ) -> None:
        """Adds an operation with any number of results."""
        self.graph.operator(code, inputs, [each.index for each in results], options, **values)
        self.read.update(inputs)

    def cast(self, source: Tensor, kind: str) -> Tensor:
        """Converts a value."""
        types: Any = {"InDataType": _NUMBERS[source.type], "OutDataType": _NUMBERS[kind]}
        return self.add("CAST", [source.index], source.shape, "CastOptions", kind=kind, **types)

    def reshaped(self, source: Tensor, shape: Sequence[int | Length]) -> Tensor:
        """Gives a value another shape with at most one length that is not known."""
        sizes = self.constant([-1 if isinstance(each, Length) else each for each in shape])
        return self.add("RESHAPE", [source.index, sizes], shape, "ReshapeOptions", kind=source.type)

    def flat(self, source: Tensor) -> Tensor:
        """Joins all axes of a value."""
        return source if source.rank == 1 else self.reshaped(source, [self.length(source.most)])

    def bounded(self, source: Tensor) -> Tensor:
        """Makes numbers small."""
        return self.add("FLOOR_MOD", [source.index, self.constant(MODULUS)], source.shape)

    def condition(self, source: Tensor) -> Tensor:
        """Compares the elements with a number."""
        limit = self.rng.choice((-1, 5, 30, 48, 60, 90, 200))
        code = self.rng.choice(("GREATER", "LESS", "NOT_EQUAL", "EQUAL", "LESS_EQUAL"))
        return self.add(code, [source.index, self.constant(limit)], source.shape, kind="BOOL")

    def number(self, source: Tensor, low: int, high: int) -> Tensor:
        """Computes a number from data, between `low` and `high`."""
        axes = self.constant(list(range(source.rank)))
        code = self.rng.choice(("SUM", "REDUCE_MAX", "SUM"))
        if code == "REDUCE_MAX" and source.rank:
            # There is no largest one of no numbers.
            longer = [self.length(most_of(each) + 1) for each in source.shape]
            pads = self.constant([[0, 1]] * source.rank)
            source = self.add("PAD", [source.index, pads], longer, "PadOptions")
        total = self.add(code, [source.index, axes], [], "ReducerOptions", KeepDims=False)
        rest = self.add("FLOOR_MOD", [total.index, self.constant(high - low + 1)], [])
        return self.add("ADD", [rest.index, self.constant(low)], [], "AddOptions")

    def shape_of(self, source: Tensor) -> Tensor:
        """Reads the shape of a value."""
        return self.add("SHAPE", [source.index], [source.rank], "ShapeOptions", OutType=2)

    def length_of(self, source: Tensor, axis: int) -> Tensor:
        """Reads a length of a value."""
        shape = self.shape_of(source)
        part = [self.constant([axis]), self.constant([axis + 1]), self.constant([1])]
        return self.add("STRIDED_SLICE", [shape.index, *part], [], "StridedSliceOptions", ShrinkAxisMask=1)

    def packed(self, numbers: Sequence[int]) -> Tensor:
        """Makes a list of numbers."""
        options: Any = {"ValuesCount": len(numbers), "Axis": 0}
        return self.add("PACK", numbers, [len(numbers)], "PackOptions", **options)

    def matrix(self, *shape: int) -> np.ndarray[Any, Any]:
        """Returns random small integers."""
        return np.random.default_rng(self.rng.randrange(1 << 30)).integers(-3, 4, shape)
