"""Random programs of loops, branches, counters, vectors, lists, and queues, whose lengths change.

All arithmetic is exact, so that results have the same bits however they are computed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from support.models.control_flow import BOOL, FLOAT, INT, Graph

import neurald as nd

Op = nd.OperationType
LENGTH, WIDTH = 4, 3

#: A counter, a vector, a list of vectors, or a list of any number of vectors.
Kind = str
_SHAPES = {"counter": (1,), "vector": (WIDTH,), "list": (LENGTH, WIDTH)}
_GROWING_SHAPES = {**_SHAPES, "queue": (0, WIDTH)}
#: Number of turns of loops; a program with queues may have long ones.
_TURNS, _GROWING_TURNS = (0, 1, 3, 7), (0, 1, 2, 3, 7, 20)
#: Longest queue to which another queue is appended: they may double in every turn.
_LONGEST = 60
_INT64 = nd.OperandType.TENSOR_INT64


@dataclass(frozen=True, slots=True)
class Variable:
    """An operand and its kind."""

    index: int
    kind: Kind


class RandomProgram:
    """A random graph.

    Args:
        rng: source of all choices.
        kinds: of its inputs.
        depth: how deep control flow may nest.
        may_fail: True if an index may be out of range.
        is_wide: True if counters have 64 bits.
        grows: True if there are queues.
    """

    def __init__(
        self,
        rng: random.Random,
        kinds: Sequence[Kind],
        depth: int,
        *,
        may_fail: bool = False,
        is_wide: bool = False,
        grows: bool = False,
    ) -> None:
        self._rng, self._depth, self._may_fail, self._is_wide = rng, depth, may_fail, is_wide
        self._grows, self._shapes = grows, _GROWING_SHAPES if grows else _SHAPES
        self._graph = Graph()
        self.inputs = [self._new(kind) for kind in kinds]
        self._readable = list(self.inputs)

    def finished(self, kinds: Sequence[Kind]) -> nd.Model:
        """Adds operations, and returns the model with outputs of these kinds."""
        for _ in range(self._rng.randint(1, 4)):
            self._readable += self._operation()
        outputs = [self._result(kind).index for kind in kinds]
        return self._graph.finish([each.index for each in self.inputs], outputs)

    def _new(self, kind: Kind) -> Variable:
        return Variable(self._graph.value(self._type(kind), self._shapes[kind]), kind)

    def _type(self, kind: Kind) -> nd.OperandType:
        if kind != "counter":
            return FLOAT
        return _INT64 if self._is_wide else INT

    def _integers(self, *values: int) -> int:
        """Adds integers of the type of a counter."""
        return self._graph.constant(values, self._type("counter"))

    def _shape(self, *lengths: int) -> int:
        return self._graph.constant(lengths, INT)

    def _number(self, value: int) -> int:
        index = self._graph.builder.add_operand(nd.OperandType.INT32)
        self._graph.builder.set_operand_value(index, value)
        return index

    def _any(self, kind: Kind) -> Variable:
        """Returns a value of this kind: one that exists, or a constant."""
        found = [each for each in self._readable if each.kind == kind]
        if found and self._rng.random() < 0.85:
            return self._rng.choice(found)
        shape = (self._rng.randint(1, 3), WIDTH) if kind == "queue" else self._shapes[kind]
        index = self._graph.builder.add_operand(self._type(kind), shape)
        numbers = [self._rng.randint(-3, 3) for _ in range(int(np.prod(shape)))]
        dtype = self._type(kind).dtype
        self._graph.builder.set_operand_value(index, np.array(numbers, dtype).reshape(shape))
        return Variable(index, kind)

    def _add(self, kind: Op, inputs: Sequence[int], output: int) -> int:
        self._graph.builder.add_operation(kind, list(inputs), [output])
        return output

    def _result(self, kind: Kind) -> Variable:
        """Returns a new value: computed, or the copy of another one."""
        if self._rng.random() < 0.4:
            source, copy = self._any(kind), self._new(kind)
            shape = (-1, WIDTH) if kind == "queue" else self._shapes[kind]
            self._add(Op.TFLITE_RESHAPE, [source.index, self._shape(*shape)], copy.index)
            return copy
        return self._simple(kind)

    def _simple(self, kind: Kind) -> Variable:
        if kind == "queue":
            return self._queue()
        if self._grows and kind in ("vector", "counter") and self._rng.random() < 0.4:
            return self._of_queue(kind)
        if kind == "list" and self._rng.random() < 0.6:
            return self._updated()
        if kind == "vector" and self._rng.random() < 0.4:
            return self._element()
        operation = self._rng.choice((Op.TFLITE_ADD, Op.TFLITE_SUB, Op.TFLITE_MAXIMUM))
        first, second, output = self._any(kind).index, self._any(kind).index, self._new(kind)
        tail = [] if operation is Op.TFLITE_MAXIMUM else [self._graph.none]
        self._add(operation, [first, second, *tail], output.index)
        return output

    def _position(self) -> int:
        """Returns a counter that is a valid index, unless the program may fail."""
        computed = [each for each in self._readable if each.kind == "counter"]
        if self._may_fail and computed and self._rng.random() < 0.2:
            return self._rng.choice(computed).index
        counter = self._any("counter").index
        low, high = self._new("counter").index, self._new("counter").index
        self._add(Op.TFLITE_MAXIMUM, [counter, self._integers(0)], low)
        return self._add(Op.TFLITE_MINIMUM, [low, self._integers(LENGTH - 1)], high)

    def _element(self) -> Variable:
        """Reads an element of a list."""
        source, output = self._any("list").index, self._new("vector")
        row = self._graph.value(FLOAT, (1, WIDTH))
        position = self._position()
        if self._rng.random() < 0.5:
            self._add(Op.TFLITE_GATHER, [source, self._number(0), position], row)
        else:
            begin = self._graph.value(self._type("counter"), (2,))
            parts = [position, self._integers(0), self._number(0)]
            self._add(Op.TFLITE_CONCATENATION, parts, begin)
            self._add(Op.TFLITE_SLICE, [source, begin, self._integers(1, -1)], row)
        self._add(Op.TFLITE_RESHAPE, [row, self._shape(WIDTH)], output.index)
        return output

    def _updated(self) -> Variable:
        """Replaces an element of a list, as TensorFlow's converter writes it."""
        source, item, output = self._any("list").index, self._any("vector").index, self._new("list")
        row = self._add(
            Op.TFLITE_RESHAPE, [item, self._shape(1, WIDTH)], self._graph.value(FLOAT, (1, WIDTH))
        )
        position, zero = self._position(), self._number(0)
        joined = self._graph.value(self._type("counter"), (2,))
        if self._rng.random() < 0.3:
            self._add(Op.TFLITE_CONCATENATION, [position, self._integers(0), zero], joined)
            self._add(Op.TFLITE_DYNAMIC_UPDATE_SLICE, [source, row, joined], output.index)
            return output
        following, rest = self._new("counter").index, self._graph.value(self._type("counter"), (2,))
        self._graph.binary(Op.TFLITE_ADD, position, self._integers(1), following)
        self._add(Op.TFLITE_CONCATENATION, [position, self._integers(-1), zero], joined)
        self._add(Op.TFLITE_CONCATENATION, [following, self._integers(0), zero], rest)
        head, tail = self._graph.value(FLOAT, (0, 0)), self._graph.value(FLOAT, (0, 0))
        self._add(Op.TFLITE_SLICE, [source, self._integers(0, 0), joined], head)
        self._add(Op.TFLITE_SLICE, [source, rest, self._integers(-1, -1)], tail)
        self._add(Op.TFLITE_CONCATENATION, [head, row, tail, zero], output.index)
        return output

    def _queue(self) -> Variable:
        """Returns a queue with more or fewer vectors than another one, or with other vectors."""
        source, output, kind = self._any("queue").index, self._new("queue"), self._rng.random()
        zero = self._number(0)
        if kind < 0.35:
            row = self._graph.value(FLOAT, (1, WIDTH))
            self._add(Op.TFLITE_RESHAPE, [self._any("vector").index, self._shape(1, WIDTH)], row)
            parts = [source, row] if self._rng.random() < 0.7 else [row, source]
            self._add(Op.TFLITE_CONCATENATION, [*parts, zero], output.index)
        elif kind < 0.45:
            shorter = self._slice(self._any("queue").index, self._integers(0, 0), longest=_LONGEST)
            other = self._slice(source, self._integers(0, 0), longest=_LONGEST)
            self._add(Op.TFLITE_CONCATENATION, [shorter, other, zero], output.index)
        elif kind < 0.55:
            begin = self._graph.value(self._type("counter"), (2,))
            parts = [self._within(self._any("counter").index, source), self._integers(0), zero]
            self._add(Op.TFLITE_CONCATENATION, parts, begin)
            self._add(Op.TFLITE_SLICE, [source, begin, self._integers(-1, -1)], output.index)
        elif kind < 0.65:
            position = self._within(self._any("counter").index, source)
            return Variable(self._slice(source, self._integers(0, 0), position), "queue")
        elif kind < 0.75:
            shape = self._shape(-1, WIDTH)
            self._add(Op.TFLITE_RESHAPE, [self._any("list").index, shape], output.index)
        else:
            other = self._any("vector").index
            self._add(Op.TFLITE_SUB, [source, other, self._graph.none], output.index)
        return output

    def _length(self, queue: int) -> int:
        """Returns the length of a queue as a counter."""
        shape = self._graph.value(self._type("counter"), (2,))
        self._add(Op.TFLITE_SHAPE, [queue], shape)
        arguments = [shape, self._integers(0), self._integers(1)]
        return self._add(Op.TFLITE_SLICE, arguments, self._new("counter").index)

    def _within(self, counter: int, queue: int) -> int:
        """Returns a counter, moved into the range from 0 to the length of a queue."""
        low = self._add(Op.TFLITE_MAXIMUM, [counter, self._integers(0)], self._new("counter").index)
        return self._add(Op.TFLITE_MINIMUM, [low, self._length(queue)], self._new("counter").index)

    def _slice(self, queue: int, begin: int, length: int | None = None, longest: int = 0) -> int:
        """Returns the first vectors of a queue."""
        if length is None:
            length = self._add(
                Op.TFLITE_MINIMUM,
                [self._length(queue), self._integers(longest)],
                self._new("counter").index,
            )
        size = self._graph.value(self._type("counter"), (2,))
        self._add(Op.TFLITE_CONCATENATION, [length, self._integers(WIDTH), self._number(0)], size)
        return self._add(Op.TFLITE_SLICE, [queue, begin, size], self._new("queue").index)

    def _of_queue(self, kind: Kind) -> Variable:
        """Returns the length of a queue, or the sum of its vectors."""
        source, output = self._any("queue").index, self._new(kind)
        if kind == "counter":
            return Variable(self._length(source), kind)
        index = self._graph.builder.add_operand(nd.OperandType.BOOL)
        self._graph.builder.set_operand_value(index, value=False)
        # Sums of small numbers are exact.
        small = self._slice(source, self._integers(0, 0), longest=3)
        self._add(Op.TFLITE_SUM, [small, self._shape(0), index], output.index)
        return output

    def _operation(self) -> list[Variable]:
        kind = self._rng.random()
        if self._depth == 0 or kind < 0.4:
            return [self._simple(self._rng.choice(tuple(self._shapes)))]
        return self._branch() if kind < 0.6 else self._loop()

    def _inner(self, kinds: Sequence[Kind]) -> "RandomProgram":
        return type(self)(
            self._rng,
            kinds,
            self._depth - 1,
            may_fail=self._may_fail,
            is_wide=self._is_wide,
            grows=self._grows,
        )

    def _kinds(self, low: int, high: int) -> list[Kind]:
        return [self._rng.choice(tuple(self._shapes)) for _ in range(self._rng.randint(low, high))]

    def _less(self, first: int, second: int) -> int:
        return self._add(Op.TFLITE_LESS, [first, second], self._graph.value(BOOL, (1,)))

    def _branch(self) -> list[Variable]:
        kinds, results = self._kinds(1, 3), self._kinds(1, 3)
        branches = [self._graph.model(self._inner(kinds).finished(results)) for _ in range(2)]
        outputs = [self._new(kind) for kind in results]
        arguments = [self._any(kind).index for kind in kinds]
        condition = self._less(self._any("counter").index, self._any("counter").index)
        self._graph.builder.add_operation(
            Op.IF, [condition, *branches, *arguments], [each.index for each in outputs]
        )
        return outputs

    def _loop(self) -> list[Variable]:
        """Adds a loop to a limit that may depend on data, with an early exit in some cases."""
        carried, fixed = self._kinds(0, 4), self._kinds(0, 2)
        kinds = ["counter", *carried, *fixed]
        shown = self._rng.randint(1, 1 + len(carried))
        graphs = [self._condition(kinds), self._body(kinds, carried)]
        outputs = [self._new(kind) for kind in kinds[:shown]]
        start = self._any("counter").index if self._rng.random() < 0.3 else self._integers(0)
        arguments = [start, *(self._any(kind).index for kind in kinds[1:])]
        self._graph.builder.add_operation(
            Op.WHILE,
            [*(self._graph.model(each) for each in graphs), *arguments],
            [each.index for each in outputs],
        )
        return outputs

    def _condition(self, kinds: Sequence[Kind]) -> nd.Model:
        condition = self._inner(kinds)
        graph, inputs = condition._graph, condition.inputs
        limit = condition._integers(self._rng.choice(_GROWING_TURNS if self._grows else _TURNS))
        holds = condition._less(inputs[0].index, limit)
        counters = [each for each in inputs[1:] if each.kind == "counter"]
        if counters and self._rng.random() < 0.5:
            # The loop ends when another counter grows.
            other = condition._less(self._rng.choice(counters).index, condition._integers(3))
            holds = condition._add(Op.LOGICAL_AND, [holds, other], graph.value(BOOL, (1,)))
        return graph.finish([each.index for each in inputs], [holds])

    def _body(self, kinds: Sequence[Kind], carried: Sequence[Kind]) -> nd.Model:
        body = self._inner(kinds)
        counted = body._graph.binary(
            Op.TFLITE_ADD, body.inputs[0].index, body._integers(1), body._new("counter").index
        )
        for _ in range(self._rng.randint(0, 3)):
            body._readable += body._operation()
        results = [counted, *(body._result(kind).index for kind in carried)]
        return body._graph.finish([each.index for each in body.inputs], results)


class AppendingProgram(RandomProgram):
    """A random graph of queues to which elements are appended, while older ones are still needed.

    Loops carry several queues, which may be each other's predecessors, and conditions read them.
    """

    def _kinds(self, low: int, high: int) -> list[Kind]:
        kinds = super()._kinds(low, high)
        return [each if self._rng.random() < 0.3 else "queue" for each in kinds]

    def _queue(self) -> Variable:
        kind = self._rng.random()
        if kind > 0.85:
            return super()._queue()
        source, output = self._any("queue").index, self._new("queue")
        if kind < 0.1:
            self._add(Op.TFLITE_RESHAPE, [source, self._shape(-1, WIDTH)], output.index)
            return output
        parts = [self._part(source) for _ in range(self._rng.choice((1, 1, 2)))]
        if kind < 0.6:
            self._add(Op.TFLITE_CONCATENATION, [source, *parts, self._number(0)], output.index)
            return output
        # As converters write it for a batch of one.
        batch = [
            self._add(
                Op.TFLITE_RESHAPE, [each, self._shape(1, -1, WIDTH)], self._graph.value(FLOAT, (1, 0, 3))
            )
            for each in (source, *parts)
        ]
        joined = self._graph.value(FLOAT, (1, 0, WIDTH))
        self._add(Op.TFLITE_CONCATENATION, [*batch, self._number(1)], joined)
        self._add(Op.TFLITE_RESHAPE, [joined, self._shape(-1, WIDTH)], output.index)
        return output

    def _part(self, source: int) -> int:
        """Returns what is appended: a vector, or the first ones of the same or another queue."""
        kind = self._rng.random()
        if kind < 0.7:
            row = self._graph.value(FLOAT, (1, WIDTH))
            self._add(Op.TFLITE_RESHAPE, [self._any("vector").index, self._shape(1, WIDTH)], row)
            return row
        other = source if kind < 0.85 else self._any("queue").index
        return self._slice(other, self._integers(0, 0), longest=4)

    def _less(self, first: int, second: int) -> int:
        holds = super()._less(first, second)
        queues = [each for each in self._readable if each.kind == "queue"]
        if not queues or self._rng.random() < 0.6:
            return holds
        # A condition that reads the elements of a queue, too.
        total = self._any("vector").index
        if self._rng.random() < 0.8:
            total = self._of_queue("vector").index
        flags = self._add(
            Op.TFLITE_LESS, [total, self._graph.constant([1e6])], self._graph.value(BOOL, (WIDTH,))
        )
        flag = self._add(
            Op.TFLITE_SLICE, [flags, self._shape(0), self._shape(1)], self._graph.value(BOOL, (1,))
        )
        return self._add(Op.LOGICAL_AND, [holds, flag], self._graph.value(BOOL, (1,)))


def random_loops(
    seed: int, *, may_fail: bool = False, grows: bool = False, appends: bool = False
) -> tuple[nd.Model, list[list[np.ndarray]]]:
    """Returns a model, and arguments of several executions.

    Args:
        seed: of all choices.
        may_fail, grows: see `RandomProgram`.
        appends: True for an `AppendingProgram`, which grows.
    """
    rng, grows = random.Random(seed), grows or appends
    kinds = ["counter", *(rng.choice(tuple(_SHAPES)) for _ in range(rng.randint(1, 3)))]
    make = AppendingProgram if appends else RandomProgram
    program = make(rng, kinds, depth=3, may_fail=may_fail, is_wide=seed % 4 == 3, grows=grows)
    # There is always a loop.
    program._readable += program._loop()
    results = [rng.choice(tuple(program._shapes)) for _ in range(rng.randint(1, 3))]
    model = program.finished([*results, "queue"] if grows else results)
    arguments = [
        [
            np.array(
                [rng.randint(-2, 5) for _ in range(int(np.prod(_SHAPES[kind])))],
                program._type(kind).dtype,
            ).reshape(_SHAPES[kind])
            for kind in kinds
        ]
        for _ in range(3)
    ]
    return model, arguments
