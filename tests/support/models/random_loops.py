"""Random programs of loops, branches, counters, vectors and lists.

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

#: A counter, a vector, or a list of vectors.
Kind = str
_SHAPES = {"counter": (1,), "vector": (WIDTH,), "list": (LENGTH, WIDTH)}
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
    """

    def __init__(
        self,
        rng: random.Random,
        kinds: Sequence[Kind],
        depth: int,
        *,
        may_fail: bool = False,
        is_wide: bool = False,
    ) -> None:
        self._rng, self._depth, self._may_fail, self._is_wide = rng, depth, may_fail, is_wide
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
        return Variable(self._graph.value(self._type(kind), _SHAPES[kind]), kind)

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
        shape = _SHAPES[kind]
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
            self._add(Op.TFLITE_RESHAPE, [source.index, self._shape(*_SHAPES[kind])], copy.index)
            return copy
        return self._simple(kind)

    def _simple(self, kind: Kind) -> Variable:
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

    def _operation(self) -> list[Variable]:
        kind = self._rng.random()
        if self._depth == 0 or kind < 0.4:
            return [self._simple(self._rng.choice(tuple(_SHAPES)))]
        return self._branch() if kind < 0.6 else self._loop()

    def _inner(self, kinds: Sequence[Kind]) -> "RandomProgram":
        return RandomProgram(
            self._rng, kinds, self._depth - 1, may_fail=self._may_fail, is_wide=self._is_wide
        )

    def _kinds(self, low: int, high: int) -> list[Kind]:
        return [self._rng.choice(tuple(_SHAPES)) for _ in range(self._rng.randint(low, high))]

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
        limit = condition._integers(self._rng.choice((0, 1, 3, 7)))
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


def random_loops(seed: int, *, may_fail: bool = False) -> tuple[nd.Model, list[list[np.ndarray]]]:
    """Returns a model, and arguments of several executions."""
    rng = random.Random(seed)
    kinds = ["counter", *(rng.choice(tuple(_SHAPES)) for _ in range(rng.randint(1, 3)))]
    program = RandomProgram(rng, kinds, depth=3, may_fail=may_fail, is_wide=seed % 4 == 3)
    # There is always a loop.
    program._readable += program._loop()
    model = program.finished([rng.choice(tuple(_SHAPES)) for _ in range(rng.randint(1, 3))])
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
