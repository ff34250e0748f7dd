"""Random networks whose lengths follow from data, with branches and loops.

An operation may find any number of rows, down to none; others are joined with them, reduce them,
move them, or compute sizes of further tensors from them. All numbers are small integers, so that
results have the same bits however they are computed. Executions that a network refuses are part of
what is compared: some sizes do not fit.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from support.tflite.builder import TfliteGraph, TfliteModel

from neurald.hal.operations.machinery.call import Array

#: Lengths of open dimensions of inputs, from which executions choose.
_LENGTHS = (0, 1, 2, 3, 5, 8, 13, 16, 19)
#: Values of more elements, as far as known, are not used further.
_MAX_ELEMENTS = 20_000
#: Numbers are reduced modulo this number.
_MODULUS = 97
_DTYPES: dict[str, type[Any]] = {
    "INT32": np.int32,
    "INT64": np.int64,
    "FLOAT32": np.float32,
    "INT8": np.int8,
    "BOOL": np.bool_,
}
_NUMBERS = {"FLOAT32": 0, "INT32": 2, "INT64": 4, "BOOL": 6}


#: Methods of `_Graph` that add operations, some of them more often.
_NAMES = """
    places places distinct segments segments range filled tiled padded sliced broadcast one_hot scattered
    combined combined selected joined joined transposed reversed reduced largest multiplied reshaped
    branched looped looped
"""
_LAYERS = tuple(_NAMES.split())


@dataclass(frozen=True, slots=True)
class Length:
    """Length that is not known.

    Attributes:
        number: the same for lengths that are equal.
        most: about the largest length to be expected.
    """

    number: int
    most: int


@dataclass(frozen=True, slots=True)
class _Tensor:
    index: int
    shape: tuple[int | Length, ...]
    type: str = "INT32"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def most(self) -> int:
        """About the largest number of elements to be expected."""
        return int(np.prod([_most(each) for each in self.shape]))


def _most(length: int | Length) -> int:
    return length.most if isinstance(length, Length) else length


class _Graph:
    """A graph that grows by an operation at a time."""

    def __init__(self, file: TfliteModel, rng: random.Random, numbers: Iterator[int], depth: int) -> None:
        self._rng, self._file, self._numbers, self._depth = rng, file, numbers, depth
        self.graph: TfliteGraph = file.subgraph()
        self.values: list[_Tensor] = []
        self.read: set[int] = set()

    def tensor(self, shape: Sequence[int | Length], kind: str = "INT32") -> _Tensor:
        """Adds a tensor."""
        known = [1 if isinstance(each, Length) else each for each in shape]
        signature = [-1 if isinstance(each, Length) else each for each in shape]
        is_open = -1 in signature
        index = self.graph.tensor(
            known, kind, shape_signature=signature if is_open else None, has_rank=not shape
        )
        return _Tensor(index, tuple(shape), kind)

    def grow(self, layers: int) -> None:
        """Adds operations."""
        choices = [getattr(self, name) for name in _LAYERS]
        for _ in range(layers):
            layer: Callable[[_Tensor], Sequence[_Tensor]] = self._rng.choice(choices)
            source = self.values[-1] if self._rng.random() < 0.6 else self._rng.choice(self.values)
            self.values += [each for each in layer(source) if each.most <= _MAX_ELEMENTS]

    def length(self, most: int) -> Length:
        """Returns a length of which nothing else is known."""
        return Length(next(self._numbers), max(most, 1))

    def constant(self, numbers: Any, kind: str = "INT32") -> int:
        """Adds a constant."""
        data = np.asarray(numbers, _DTYPES[kind])
        return self.graph.tensor(data.shape, kind, data=data, has_rank=not data.shape)

    def add(
        self,
        code: str,
        inputs: Sequence[int],
        shape: Sequence[int | Length],
        options: str | None = None,
        *,
        kind: str = "INT32",
        **values: Any,
    ) -> _Tensor:
        """Adds an operation with one result."""
        result = self.tensor(shape, kind)
        self.graph.operator(code, inputs, [result.index], options, **values)
        self.read.update(inputs)
        return result

    def _cast(self, source: _Tensor, kind: str) -> _Tensor:
        types: Any = {"InDataType": _NUMBERS[source.type], "OutDataType": _NUMBERS[kind]}
        return self.add("CAST", [source.index], source.shape, "CastOptions", kind=kind, **types)

    def _reshaped(self, source: _Tensor, shape: Sequence[int | Length]) -> _Tensor:
        sizes = self.constant([-1 if isinstance(each, Length) else each for each in shape])
        return self.add("RESHAPE", [source.index, sizes], shape, "ReshapeOptions", kind=source.type)

    def _bounded(self, source: _Tensor) -> _Tensor:
        return self.add("FLOOR_MOD", [source.index, self.constant(_MODULUS)], source.shape)

    def flat(self, source: _Tensor) -> _Tensor:
        """Returns a value with all of its axes joined."""
        return source if source.rank == 1 else self._reshaped(source, [self.length(source.most)])

    def _condition(self, source: _Tensor) -> _Tensor:
        limit = self._rng.choice((-1, 5, 30, 48, 60, 90, 200))
        code = self._rng.choice(("GREATER", "LESS", "NOT_EQUAL", "EQUAL", "LESS_EQUAL"))
        return self.add(code, [source.index, self.constant(limit)], source.shape, kind="BOOL")

    def _number(self, source: _Tensor, low: int, high: int) -> _Tensor:
        """Computes a number from data, between `low` and `high`."""
        axes = self.constant(list(range(source.rank)))
        code = self._rng.choice(("SUM", "REDUCE_MAX", "SUM"))
        if code == "REDUCE_MAX" and source.rank:
            # There is no largest one of no numbers.
            longer = [self.length(_most(each) + 1) for each in source.shape]
            pads = self.constant([[0, 1]] * source.rank)
            source = self.add("PAD", [source.index, pads], longer, "PadOptions")
        total = self.add(code, [source.index, axes], [], "ReducerOptions", KeepDims=False)
        rest = self.add("FLOOR_MOD", [total.index, self.constant(high - low + 1)], [])
        return self.add("ADD", [rest.index, self.constant(low)], [], "AddOptions")

    def _shape(self, source: _Tensor) -> _Tensor:
        return self.add("SHAPE", [source.index], [source.rank], "ShapeOptions", OutType=2)

    def _packed(self, numbers: Sequence[int]) -> _Tensor:
        options: Any = {"ValuesCount": len(numbers), "Axis": 0}
        return self.add("PACK", numbers, [len(numbers)], "PackOptions", **options)

    def _length_of(self, source: _Tensor, axis: int) -> _Tensor:
        """Reads a length of a value."""
        shape = self._shape(source)
        part = [self.constant([axis]), self.constant([axis + 1]), self.constant([1])]
        return self.add("STRIDED_SLICE", [shape.index, *part], [], "StridedSliceOptions", ShrinkAxisMask=1)

    # Rows that are found.

    def places(self, source: _Tensor) -> Sequence[_Tensor]:
        """Finds elements, and takes them from the value."""
        condition = self._condition(source)
        found = self.add("WHERE", [condition.index], [self.length(source.most), source.rank], kind="INT64")
        kind = self._rng.randrange(4)
        if kind == 0:
            return [self._cast(found, "INT32")]
        if kind == 1 or source.rank != 1:
            other = self.add("GATHER_ND", [source.index, found.index], found.shape[:1])
            return [other] if kind == 1 else [other, self._cast(found, "INT32")]
        places = self._reshaped(found, found.shape[:1])
        if kind == 2:
            places = self._cast(places, "INT32")
        others = [each for each in self.values if each.rank and each.shape[0] == source.shape[0]]
        return [
            self.add(
                "GATHER",
                [each.index, places.index],
                (*found.shape[:1], *each.shape[1:]),
                "GatherOptions",
                Axis=0,
                BatchDims=0,
            )
            for each in self._rng.sample(others, min(len(others), self._rng.randint(1, 2)))
        ]

    def distinct(self, source: _Tensor) -> Sequence[_Tensor]:
        """Finds the distinct elements, and the number of each element."""
        source = self.flat(source)
        found, numbers = self.tensor([self.length(source.most)]), self.tensor(source.shape)
        self.graph.operator(
            "UNIQUE", [source.index], [found.index, numbers.index], "UniqueOptions", IdxOutType=2
        )
        self.read.add(source.index)
        return [found, numbers]

    def segments(self, source: _Tensor) -> Sequence[_Tensor]:
        """Adds rows up in segments."""
        if not source.rank:
            return []
        rows = source.shape[0]
        keys = [each for each in self.values if each.shape == (rows,)]
        first = self._rng.choice(keys) if keys else self._column(source)
        steps = self._cast(self._condition(first), "INT32")
        order = self.add(
            "CUMSUM",
            [steps.index, self.constant(0)],
            steps.shape,
            "CumsumOptions",
            Exclusive=True,
            Reverse=False,
        )
        if self._rng.random() < 0.5:
            shape = (self.length(_most(rows)), *source.shape[1:])
            return [self._bounded(self.add("SEGMENT_SUM", [source.index, order.index], shape))]
        number = self._number(order, 1, 9)
        code = self._rng.choice(("SUM", "MAX", "MIN", "PROD"))
        inside = self.add("MINIMUM", [order.index, self.constant(8)], order.shape)
        sums = self.add(
            f"UNSORTED_SEGMENT_{code}",
            [source.index, inside.index, number.index],
            (self.length(9), *source.shape[1:]),
        )
        return [self._bounded(sums)]

    def _column(self, source: _Tensor) -> _Tensor:
        if source.rank == 1:
            return source
        axes = self.constant(list(range(1, source.rank)))
        total = self.add("SUM", [source.index, axes], source.shape[:1], "ReducerOptions", KeepDims=False)
        return self._bounded(total)

    # Sizes that are computed.

    def range(self, source: _Tensor) -> Sequence[_Tensor]:
        """Counts to a number of data, or to a length."""
        if self._rng.random() < 0.5 or not source.rank:
            limit, most = self._number(source, 0, 12), 12
        else:
            axis = self._rng.randrange(source.rank)
            limit, most = self._length_of(source, axis), _most(source.shape[axis])
        start = self.constant(0) if self._rng.random() < 0.7 else self._number(source, 0, 3).index
        step = self.constant(self._rng.choice((1, 1, 1, 2, 3)))
        return [self.add("RANGE", [start, limit.index, step], [self.length(most)], "RangeOptions")]

    def filled(self, source: _Tensor) -> Sequence[_Tensor]:
        """Fills a tensor whose lengths are data."""
        if self._rng.random() < 0.4 and source.rank:
            number = self.constant(self._rng.randint(0, 9))
            return [self.add("FILL", [self._shape(source).index, number], source.shape, "FillOptions")]
        rank = self._rng.randint(1, 3)
        numbers = [self._number(source, 0, 5) for _ in range(rank)]
        value = self._rng.choice((self._number(source, 0, 50).index, self.constant(7)))
        shape = [self.length(5) for _ in range(rank)]
        return [
            self.add(
                "FILL", [self._packed([each.index for each in numbers]).index, value], shape, "FillOptions"
            )
        ]

    def tiled(self, source: _Tensor) -> Sequence[_Tensor]:
        """Repeats a value as often as data say."""
        if not source.rank or source.most > 600:
            return []
        multiples = [
            self._number(source, 0, 3).index
            if self._rng.random() < 0.5
            else self.constant(self._rng.randint(1, 2))
            for _ in source.shape
        ]
        shape = [self.length(3 * _most(each)) for each in source.shape]
        return [self.add("TILE", [source.index, self._packed(multiples).index], shape, "TileOptions")]

    def padded(self, source: _Tensor) -> Sequence[_Tensor]:
        """Pads a value by numbers of which some are data."""
        if not source.rank:
            return []
        numbers = [
            self._number(source, 0, 3).index
            if self._rng.random() < 0.4
            else self.constant(self._rng.randint(0, 2))
            for _ in range(2 * source.rank)
        ]
        table = self._reshaped(self._packed(numbers), [source.rank, 2])
        shape = [self.length(_most(each) + 4) for each in source.shape]
        return [self.add("PAD", [source.index, table.index], shape, "PadOptions")]

    def sliced(self, source: _Tensor) -> Sequence[_Tensor]:
        """Cuts a value at places that are data."""
        if not source.rank:
            return []
        shape = [self.length(_most(each)) for each in source.shape]
        begins = [
            self._number(source, 0, 2).index if self._rng.random() < 0.3 else self.constant(0)
            for _ in source.shape
        ]
        if self._rng.random() < 0.4:
            sizes = [
                self._number(source, 0, 3).index if self._rng.random() < 0.5 else self.constant(-1)
                for _ in source.shape
            ]
            inputs = [source.index, self._packed(begins).index, self._packed(sizes).index]
            return [self.add("SLICE", inputs, shape, "SliceOptions")]
        ends = [
            self._number(source, 0, 9).index
            if self._rng.random() < 0.5
            else self.constant(self._rng.choice((-1, 50, 3)))
            for _ in source.shape
        ]
        steps = [self._rng.choice((1, 1, 1, 2, 3)) for _ in source.shape]
        inputs = [source.index, self._packed(begins).index, self._packed(ends).index, self.constant(steps)]
        return [self.add("STRIDED_SLICE", inputs, shape, "StridedSliceOptions")]

    def broadcast(self, source: _Tensor) -> Sequence[_Tensor]:
        """Repeats a row for each row of another value."""
        others = [
            each for each in self.values if each.rank == source.rank + 1 and each.shape[1:] == source.shape
        ]
        if not others:
            return []
        other = self._rng.choice(others)
        inputs = [source.index, self._shape(other).index]
        return [self.add("BROADCAST_TO", inputs, other.shape)]

    def one_hot(self, source: _Tensor) -> Sequence[_Tensor]:
        """Encodes numbers with as many columns as data say."""
        if source.most > 600:
            return []
        depth = self._number(source, 0, 9) if self._rng.random() < 0.5 else self._number(source, 5, 5)
        numbers = [self.constant(3), self.constant(1)]
        shape = (*source.shape, self.length(9))
        return [self.add("ONE_HOT", [source.index, depth.index, *numbers], shape, "OneHotOptions", Axis=-1)]

    def scattered(self, source: _Tensor) -> Sequence[_Tensor]:
        """Scatters rows to places in a tensor of computed size."""
        if source.rank != 1:
            return []
        number = self._number(source, 97, 100)
        places = self._reshaped(source, [*source.shape, 1])
        ones = self.add("MINIMUM", [source.index, self.constant(40)], source.shape)
        target = self._packed([number.index])
        result = self.add(
            "SCATTER_ND", [places.index, ones.index, target.index], [self.length(100)], "ScatterNdOptions"
        )
        return [self._bounded(result)]

    # Whatever works with any lengths.

    def combined(self, source: _Tensor) -> Sequence[_Tensor]:
        """Combines two values of equal shapes, or that may be broadcast."""
        fitting = [each for each in self.values if each.shape == source.shape or not each.rank]
        other = (
            self.constant(self._rng.randint(-9, 60))
            if self._rng.random() < 0.4
            else (self._rng.choice(fitting).index if fitting else source.index)
        )
        code = self._rng.choice(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"))
        options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}.get(code)
        return [self._bounded(self.add(code, [source.index, other], source.shape, options))]

    def selected(self, source: _Tensor) -> Sequence[_Tensor]:
        """Selects elements of two values."""
        fitting = [each for each in self.values if each.shape == source.shape]
        if not fitting:
            return []
        condition = self._condition(self._rng.choice(fitting))
        other = self._rng.choice(fitting)
        return [self.add("SELECT_V2", [condition.index, source.index, other.index], source.shape)]

    def joined(self, source: _Tensor) -> Sequence[_Tensor]:
        """Concatenates values."""
        if not source.rank:
            return []
        along = self._rng.randrange(source.rank)

        def others(shape: tuple[int | Length, ...]) -> tuple[int | Length, ...]:
            return (*shape[:along], *shape[along + 1 :])

        fitting = [
            each
            for each in self.values
            if each.rank == source.rank and others(each.shape) == others(source.shape)
        ]
        parts = [source, *self._rng.sample(fitting, min(len(fitting), self._rng.randint(1, 3)))]
        self._rng.shuffle(parts)
        total = self.length(sum(_most(each.shape[along]) for each in parts))
        shape = (*source.shape[:along], total, *source.shape[along + 1 :])
        indices = [each.index for each in parts]
        return [self.add("CONCATENATION", indices, shape, "ConcatenationOptions", Axis=along)]

    def transposed(self, source: _Tensor) -> Sequence[_Tensor]:
        """Transposes a value."""
        order = self._rng.sample(range(source.rank), source.rank)
        shape = [source.shape[each] for each in order]
        return [self.add("TRANSPOSE", [source.index, self.constant(order)], shape, "TransposeOptions")]

    def reversed(self, source: _Tensor) -> Sequence[_Tensor]:
        """Turns a value round, or sums it up along an axis."""
        if not source.rank:
            return []
        axis = self._rng.randrange(source.rank)
        if self._rng.random() < 0.5:
            return [self.add("REVERSE_V2", [source.index, self.constant([axis])], source.shape)]
        options: Any = {"Exclusive": self._rng.random() < 0.5, "Reverse": self._rng.random() < 0.5}
        inputs = [source.index, self.constant(axis)]
        return [self._bounded(self.add("CUMSUM", inputs, source.shape, "CumsumOptions", **options))]

    def reduced(self, source: _Tensor) -> Sequence[_Tensor]:
        """Subtracts a reduction from a value."""
        if not source.rank:
            return []
        axes = self._rng.sample(range(source.rank), self._rng.randint(1, source.rank))
        keeps = self._rng.random() < 0.6
        shape = [
            1 if axis in axes else length
            for axis, length in enumerate(source.shape)
            if keeps or axis not in axes
        ]
        inputs = [source.index, self.constant(axes)]
        total = self.add("SUM", inputs, shape, "ReducerOptions", KeepDims=keeps)
        total = self._bounded(total)
        if not keeps:
            return [total]
        difference = self.add("SUB", [source.index, total.index], source.shape, "SubOptions")
        return [self._bounded(difference), total]

    def largest(self, source: _Tensor) -> Sequence[_Tensor]:
        """Finds the largest elements, as many as data say, or the place of the largest one."""
        if not source.rank:
            return []
        if self._rng.random() < 0.5:
            axis = self._rng.randrange(source.rank)
            shape = (*source.shape[:axis], *source.shape[axis + 1 :])
            inputs = [source.index, self.constant(axis)]
            return [self.add("ARG_MAX", inputs, shape, "ArgMaxOptions", OutputType=2)]
        number = self._number(source, 0, 2)
        shape = (*source.shape[:-1], self.length(2))
        values, places = self.tensor(shape), self.tensor(shape)
        self.graph.operator(
            "TOPK_V2", [source.index, number.index], [values.index, places.index], "TopKV2Options"
        )
        self.read.update((source.index, number.index))
        return [values, places]

    def multiplied(self, source: _Tensor) -> Sequence[_Tensor]:
        """Multiplies rows with a constant matrix, or with each other."""
        if source.rank < 2 or isinstance(source.shape[-1], Length) or source.most > 2000:
            return []
        numbers = self._cast(source, "FLOAT32")
        columns = self._rng.choice((1, 3, 4, 8, 17))
        if self._rng.random() < 0.6:
            matrix = np.random.default_rng(self._rng.randrange(1 << 30)).integers(
                -3, 4, (columns, source.shape[-1])
            )
            inputs = [numbers.index, self.constant(matrix, "FLOAT32"), -1]
            product = self.add(
                "FULLY_CONNECTED",
                inputs,
                (*source.shape[:-1], columns),
                "FullyConnectedOptions",
                kind="FLOAT32",
                KeepNumDims=True,
            )
        else:
            shape = (*source.shape[:-1], source.shape[-2])
            product = self.add(
                "BATCH_MATMUL",
                [numbers.index] * 2,
                shape,
                "BatchMatMulOptions",
                kind="FLOAT32",
                AdjX=False,
                AdjY=True,
            )
        return [self._bounded(self._cast(product, "INT32"))]

    def reshaped(self, source: _Tensor) -> Sequence[_Tensor]:
        """Adds or removes an axis, or joins two."""
        kind = self._rng.randrange(4)
        if kind == 0 or not source.rank:
            axis = self._rng.randint(0, source.rank)
            shape = (*source.shape[:axis], 1, *source.shape[axis:])
            return [self.add("EXPAND_DIMS", [source.index, self.constant(axis)], shape, "ExpandDimsOptions")]
        if kind == 1:
            return [self.flat(source)]
        if kind == 2 and 1 in source.shape:
            axis = source.shape.index(1)
            shape = (*source.shape[:axis], *source.shape[axis + 1 :])
            return [self.add("SQUEEZE", [source.index], shape, "SqueezeOptions", SqueezeDims=[axis])]
        rows = self._length_of(source, 0)
        table = self._packed([rows.index, self.constant(-1)])
        shape = (source.shape[0], self.length(source.most))
        return [self.add("RESHAPE", [source.index, table.index], shape, "ReshapeOptions")]

    # Control flow.

    def branched(self, source: _Tensor) -> Sequence[_Tensor]:
        """Computes with one of two graphs."""
        if self._depth >= 2:
            return []
        captured = self._captured(source)
        condition = self._flag(source)
        graphs = [self._inner(captured) for _ in range(2)]
        for graph in graphs:
            graph.grow(self._rng.randint(1, 4))
        results = []
        first, second = (graph.values[-1] for graph in graphs)
        if first.rank != second.rank:
            first, second = (graph.flat(each) for graph, each in zip(graphs, (first, second), strict=True))
        for graph, value in zip(graphs, (first, second), strict=True):
            graph.graph.outputs = [value.index]
        shape = tuple(
            one
            if one == other and not isinstance(one, Length)
            else self.length(max(_most(one), _most(other)))
            for one, other in zip(first.shape, second.shape, strict=True)
        )
        options: Any = {
            "ThenSubgraphIndex": self._place(graphs[0]),
            "ElseSubgraphIndex": self._place(graphs[1]),
        }
        inputs = [condition.index, *(each.index for each in captured)]
        results.append(self.add("IF", inputs, shape, "IfOptions", **options))
        return results

    def looped(self, source: _Tensor) -> Sequence[_Tensor]:
        """Repeats a graph on a value, which may become longer, a few times."""
        if self._depth >= 2:
            return []
        captured = self._captured(source)
        turns = (
            self._number(source, 0, 4)
            if self._rng.random() < 0.7
            else self.tensor_of(self._rng.randint(0, 3))
        )
        begin = self.tensor_of(0)
        condition, body = self._inner([begin, turns, *captured]), self._inner([begin, turns, *captured])
        less = condition.add("LESS", [each.index for each in condition.values[:2]], [], kind="BOOL")
        condition.graph.outputs = [less.index]
        counter, limit, *carried = body.values[: len(captured) + 2]
        body.values = body.values[2:]
        body.grow(self._rng.randint(1, 4))
        following = body.add("ADD", [counter.index, body.constant(1)], [], "AddOptions")
        last = body.values[-1]
        shape = carried[0].shape
        if len(shape) == 1:
            last = body.flat(last)
        if last.rank != len(shape) or any(
            one != other and not isinstance(one, Length)
            for one, other in zip(shape, last.shape, strict=False)
        ):
            last = carried[0]
        body.graph.outputs = [each.index for each in (following, limit, last, *carried[1:])]
        results = [self.tensor(each.shape) for each in (begin, turns)]
        grown = tuple(
            self.length(max(_most(each), _most(other))) if isinstance(each, Length) else each
            for each, other in zip(shape, last.shape, strict=True)
        )
        results += [self.tensor(grown), *(self.tensor(each.shape) for each in captured[1:])]
        inputs = [each.index for each in (begin, turns, *captured)]
        options: Any = {"CondSubgraphIndex": self._place(condition), "BodySubgraphIndex": self._place(body)}
        self.graph.operator("WHILE", inputs, [each.index for each in results], "WhileOptions", **options)
        self.read.update(inputs)
        return [results[2]]

    def tensor_of(self, number: int) -> _Tensor:
        """Adds a constant number as a value."""
        return _Tensor(self.constant(number), ())

    def _flag(self, source: _Tensor) -> _Tensor:
        number = self._number(source, 0, 9)
        return self.add("GREATER", [number.index, self.constant(self._rng.randint(0, 8))], [], kind="BOOL")

    def _captured(self, source: _Tensor) -> list[_Tensor]:
        others = [each for each in self.values if each is not source]
        return [source, *self._rng.sample(others, min(len(others), self._rng.randint(0, 2)))]

    def _inner(self, captured: Sequence[_Tensor]) -> "_Graph":
        inner = _Graph(self._file, self._rng, self._numbers, self._depth + 1)
        inner.values = [inner.tensor(each.shape) for each in captured]
        inner.graph.inputs = [each.index for each in inner.values]
        if self._rng.random() < 0.3:
            numbers = [self._rng.randint(0, 9) for _ in range(self._rng.choice((0, 1, 4, 7)))]
            inner.values.append(_Tensor(inner.constant(numbers), (len(numbers),)))
        return inner

    def _place(self, graph: "_Graph") -> int:
        return next(n for n, each in enumerate(self._file.graphs) if each is graph.graph)


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
        graph = _Graph(self.file, self._rng, count(1), 0)
        self._lengths: dict[Length, None] = {}
        self._shapes = [self._shape(graph) for _ in range(self._rng.randint(1, 3))]
        graph.values = [graph.tensor(shape) for shape in self._shapes]
        graph.graph.inputs = [each.index for each in graph.values]
        if self._rng.random() < 0.3:
            numbers = [self._rng.randint(0, 9) for _ in range(self._rng.choice((0, 1, 5, 8)))]
            graph.values.append(_Tensor(graph.constant(numbers), (len(numbers),)))
        graph.grow(self._rng.randint(3, 10))
        results = [each for each in graph.values[len(self._shapes) :] if each.index not in graph.read]
        chosen = [each.index for each in results if each.index not in graph.graph.inputs]
        graph.graph.outputs = list(dict.fromkeys(chosen or [graph.values[-1].index]))
        for each in self.file.graphs:
            each.operators = _needed(each)

    def _shape(self, graph: _Graph) -> tuple[int | Length, ...]:
        rank = self._rng.choice((1, 1, 1, 2, 2, 3))
        return tuple(self._length(graph) for _ in range(rank))

    def _length(self, graph: _Graph) -> int | Length:
        kind = self._rng.random()
        if kind < 0.3 and self._lengths:
            return self._rng.choice(list(self._lengths))
        if kind < 0.6:
            length = graph.length(_LENGTHS[-1])
            self._lengths[length] = None
            return length
        return self._rng.choice((1, 2, 3, 4, 7, 12, 16))

    def arrays(self, number: int) -> list[Array]:
        """Returns the inputs of an execution, whose number determines lengths and contents."""
        rng = np.random.default_rng(number)
        lengths = {each: int(rng.choice(_LENGTHS)) for each in self._lengths}
        shapes = [
            [lengths[each] if isinstance(each, Length) else each for each in shape] for shape in self._shapes
        ]
        most = int(rng.choice((1, 9, _MODULUS)))
        return [rng.integers(0, most, shape).astype(np.int32) for shape in shapes]
