"""Random nested loops and branches give the same results interpreted, split over drivers, and on
one device.
"""

import random

import numpy as np
import pytest
from support.models.control_flow import BOOL, Graph
from support.models.plans import assert_same_as_on_cpu, compiled, only, program

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice

SEEDS = 60
Op = nd.OperationType


class RandomGraph:
    """A random graph of values with one element, with IF and WHILE up to a given depth."""

    def __init__(self, rng: random.Random, inputs: int, depth: int) -> None:
        self._rng = rng
        self._depth = depth
        self._graph = Graph()
        self.inputs = [self._value() for _ in range(inputs)]
        self._readable = list(self.inputs)

    def finished(self, outputs: int) -> nd.Model:
        for _ in range(self._rng.randint(1, 5)):
            self._readable += self._operation()
        results = [self._simple() for _ in range(outputs)]
        return self._graph.finish(self.inputs, results)

    def _value(self) -> int:
        return self._graph.value(shape=(1,))

    def _argument(self) -> int:
        if self._rng.random() < 0.15:
            return self._graph.constant([self._rng.uniform(-2, 2)])
        return self._rng.choice(self._readable)

    def _operation(self) -> list[int]:
        kind = self._rng.random()
        if self._depth == 0 or kind < 0.5:
            return [self._simple()]
        return self._branch() if kind < 0.75 else self._loop()

    def _simple(self) -> int:
        output = self._value()
        kind = self._rng.choice((Op.ADD, Op.MUL, Op.TANH, Op.ABS, Op.MAXIMUM))
        if kind in (Op.ADD, Op.MUL):
            return self._graph.binary(kind, self._argument(), self._graph.constant([0.75]), output)
        arguments = [self._argument()] if kind is not Op.MAXIMUM else [self._argument(), self._argument()]
        self._graph.builder.add_operation(kind, arguments, [output])
        return output

    def _inner(self, inputs: int) -> "RandomGraph":
        return RandomGraph(self._rng, inputs, self._depth - 1)

    def _less(self, first: int, second: int) -> int:
        output = self._graph.value(BOOL, (1,))
        self._graph.builder.add_operation(Op.LESS, [first, second], [output])
        return output

    def _branch(self) -> list[int]:
        inputs, outputs = self._rng.randint(1, 3), self._rng.randint(1, 3)
        branches = [self._graph.model(self._inner(inputs).finished(outputs)) for _ in range(2)]
        results = [self._value() for _ in range(outputs)]
        arguments = [self._argument() for _ in range(inputs)]
        condition = self._less(self._argument(), self._argument())
        self._graph.builder.add_operation(Op.IF, [condition, *branches, *arguments], results)
        return results

    def _loop(self) -> list[int]:
        """Builds a loop that counts up.

        Some values are carried, some are only used inside, and some never change.
        """
        turns = float(self._rng.randint(0, 4))
        given = self._rng.randint(1, 3)
        carried = self._rng.randint(0, given)
        shown = self._rng.randint(1, 1 + carried)
        condition = Graph()
        values = [condition.value(shape=(1,)) for _ in range(1 + given)]
        goes_on = condition.value(BOOL, (1,))
        condition.builder.add_operation(Op.LESS, [values[0], condition.constant([turns])], [goes_on])
        body = self._inner(1 + given)
        counted = body._graph.binary(Op.ADD, body.inputs[0], body._graph.constant([1]), body._value())
        for _ in range(self._rng.randint(1, 3)):
            body._readable += body._operation()
        results = [counted, *(body._simple() for _ in range(carried))]
        graphs = [
            self._graph.model(condition.finish(values, [goes_on])),
            self._graph.model(body._graph.finish(body.inputs, results)),
        ]
        outputs = [self._value() for _ in range(shown)]
        arguments = [self._graph.constant([0]), *(self._argument() for _ in range(given))]
        self._graph.builder.add_operation(Op.WHILE, [*graphs, *arguments], outputs)
        return outputs


def drivers() -> list[nd.Device]:
    """Drivers that compute with references: another last bit could make a comparison take another
    branch.
    """
    return [
        ReferenceDevice(),
        only("first", Op.ADD, Op.LESS),
        only("second", Op.MUL, Op.TANH),
        only("third", Op.ABS, Op.MAXIMUM),
    ]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.sampled(4)
def test_split_equals_whole(seed: int) -> None:
    rng = random.Random(seed)
    model = RandomGraph(rng, rng.randint(1, 3), depth=3).finished(rng.randint(1, 3))
    compilation = compiled(model, *drivers())
    for _ in range(3):
        arrays = [np.array([rng.uniform(-2, 2)], np.float32) for _ in model.inputs]
        assert_same_as_on_cpu(model, compilation, *arrays, device=ReferenceDevice())


def test_the_graphs_nest() -> None:
    """The seeds produce everything that is to be tested."""
    seen: set[str] = set()
    for seed in range(20):
        rng = random.Random(seed)
        model = RandomGraph(rng, rng.randint(1, 3), depth=3).finished(rng.randint(1, 3))
        compilation = compiled(model, *drivers())
        if not compilation.plan.is_simple:
            seen.update(program(compilation))
    assert seen == {"If", "While", "Goto", "first", "second", "third"}
