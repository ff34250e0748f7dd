"""Loops append in place where nothing else needs the shorter list, and copy it elsewhere."""

import logging
import random

import numpy as np
import pytest
from support.cpu.growing_lists import (
    WIDTH,
    Op,
    assert_same,
    number,
    over,
    pushed,
    rows,
    turns,
    unchanged,
)
from support.models.control_flow import ADD, BOOL, FLOAT, INT, Graph, T
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.target.executable import Opcode
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.operations.machinery.call import Array

HEADS, FEATURES = 3, 8


def copied_bytes(model: nd.Model) -> int:
    """Returns how many bytes the copies of a turn of the last loop move, if lists are long."""
    prepared = CpuDevice().prepare_model(model, PrepareOptions())
    assert isinstance(prepared, GrowingModel)
    instructions = prepared.native.executable.instructions
    last = max(n for n, each in enumerate(instructions) if each.opcode is Opcode.JUMP)
    repeated = instructions[instructions[last].target : last]
    return sum(each.number for each in repeated if each.opcode is Opcode.COPY)


def test_rows_are_appended_in_place() -> None:
    """The copies of a turn move as many bytes as were appended, however long the list is."""
    row, counter = 4 * WIDTH, 4

    def batched(graph: Graph, _: int, value: int) -> int:
        """As converters write it for a batch of one."""
        limits = [graph.constant(each, INT) for each in ((0, 0), (1, WIDTH))]
        first, batch = graph.value(shape=(1, WIDTH)), graph.value(shape=(1, 0, WIDTH))
        graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [first])
        parts = [graph.value(shape=(1, 0, WIDTH)) for _ in range(2)]
        for source, part in zip((value, first), parts, strict=True):
            graph.builder.add_operation(
                Op.TFLITE_RESHAPE, [source, graph.constant((1, -1, WIDTH), INT)], [part]
            )
        graph.builder.add_operation(Op.CONCATENATION, [*parts, number(graph, 1)], [batch])
        longer = graph.value(shape=(0, WIDTH))
        graph.builder.add_operation(Op.TFLITE_RESHAPE, [batch, graph.constant((-1, WIDTH), INT)], [longer])
        return longer

    def sometimes(graph: Graph, count: int, value: int) -> int:
        """Appends a row in some turns."""
        then, otherwise = Graph(), Graph()
        given = then.value(shape=(0, WIDTH))
        same = otherwise.value(shape=(0, WIDTH))
        sides = [
            graph.model(then.finish([given], [pushed(then, 0, given)])),
            graph.model(otherwise.finish([same], [unchanged(otherwise, same)])),
        ]
        holds, result = graph.value(BOOL, (1,)), graph.value(shape=(0, WIDTH))
        graph.builder.add_operation(Op.LESS, [count, graph.constant([100], INT)], [holds])
        graph.builder.add_operation(Op.IF, [holds, *sides, value], [result])
        return result

    def still_read(graph: Graph, _: int, value: int) -> int:
        """The shorter list is read after the longer one is complete."""
        longer = pushed(graph, 0, value)
        total, flag = graph.value(shape=(WIDTH,)), graph.builder.add_operand(nd.OperandType.BOOL)
        graph.builder.set_operand_value(flag, value=False)
        graph.builder.add_operation(Op.REDUCE_MAX, [value, graph.constant([0], INT), flag], [total])
        last = graph.value(shape=(1, WIDTH))
        graph.builder.add_operation(Op.TFLITE_RESHAPE, [total, graph.constant((1, WIDTH), INT)], [last])
        result = graph.value(shape=(0, WIDTH))
        graph.builder.add_operation(Op.CONCATENATION, [longer, last, number(graph, 0)], [result])
        return result

    for body, rows_appended in ((pushed, 1), (batched, 1), (sometimes, 1), (still_read, 2)):
        model = over(body)
        assert copied_bytes(model) == rows_appended * row + counter, body.__name__
        assert_same(model, rows(), turns(5))
        assert_same(model, rows(), turns(150))


def test_a_list_of_which_the_shorter_one_is_kept_is_copied() -> None:
    """The condition of the next turn, or the result, still needs it."""
    graph, condition, inner = Graph(), Graph(), Graph()
    kinds = [(INT, (1,)), (FLOAT, (0, WIDTH)), (FLOAT, (0, WIDTH)), (INT, (1,))]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, inner))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], tested[3]], [holds])
    counted = inner.binary(ADD, given[0], inner.constant([1], INT), inner.value(INT, (1,)))
    results = [counted, pushed(inner, 0, given[1]), unchanged(inner, given[1])]
    models = condition.finish(tested, [holds]), inner.finish(given, results)
    value, limit = graph.value(FLOAT, (2, WIDTH)), graph.value(INT, (1,))
    outputs = [graph.value(*kind) for kind in kinds[:3]]
    arguments = [*map(graph.model, models), graph.constant([0], INT), value, value, limit]
    graph.builder.add_operation(Op.WHILE, arguments, outputs)
    model = graph.finish([value, limit], outputs)
    for count in (0, 1, 2, 150):
        _, longer, shorter = assert_same(model, rows(), turns(count))
        assert len(longer) - len(shorter) == min(count, 1)


def test_two_longer_lists_of_which_one_is_the_next() -> None:
    """Only one of them can begin with the memory of the shorter list."""

    def either(graph: Graph, count: int, value: int) -> int:
        longer = [pushed(graph, 0, value)]
        last, result = graph.value(shape=(1, WIDTH)), graph.value(shape=(0, WIDTH))
        limits = [graph.constant(each, INT) for each in ((1, 0), (1, WIDTH))]
        graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [last])
        longer.append(graph.value(shape=(0, WIDTH)))
        graph.builder.add_operation(Op.CONCATENATION, [value, last, last, number(graph, 0)], longer[1:])
        sides = []
        for n in range(2):
            side = Graph()
            given = [side.value(shape=(0, WIDTH)) for _ in range(2)]
            sides.append(graph.model(side.finish(given, [unchanged(side, given[n])])))
        holds = graph.value(BOOL, (1,))
        even = graph.value(INT, (1,))
        graph.builder.add_operation(Op.TFLITE_FLOOR_MOD, [count, graph.constant([2], INT)], [even])
        graph.builder.add_operation(Op.LESS, [even, graph.constant([1], INT)], [holds])
        graph.builder.add_operation(Op.IF, [holds, *sides, *longer], [result])
        return result

    model = over(either)
    for count in (1, 2, 3, 150):
        _, found = assert_same(model, rows(), turns(count))
        assert len(found) == 2 + count + count // 2


def cached(*, depth: int, is_read: bool, sometimes: bool) -> nd.Model:
    """Creates a loop that appends a row for each head to caches, and weighs their rows.

    Args:
        depth: number of caches, each of the results for the one before.
        is_read: True if the loop reads the caches.
        sometimes: True if only some turns append.
    """
    graph, condition, inner = Graph(), Graph(), Graph()
    row, cache = (HEADS, 1, FEATURES), (HEADS, 0, FEATURES)
    kinds = [(INT, (1,)), (FLOAT, row), *[(FLOAT, cache)] * depth, (INT, (1,))]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, inner))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], tested[-1]], [holds])
    counted = inner.binary(ADD, given[0], inner.constant([1], INT), inner.value(INT, (1,)))
    value, longer = given[1], []
    for n in range(depth):
        old, new = given[2 + n], inner.value(FLOAT, cache)
        if sometimes:
            then, otherwise = Graph(), Graph()
            sides = []
            for side in (then, otherwise):
                held, added = side.value(FLOAT, cache), side.value(FLOAT, row)
                result = side.value(FLOAT, cache)
                if side is then:
                    parts = [held, added, number(side, 1)]
                    side.builder.add_operation(Op.CONCATENATION, parts, [result])
                else:
                    shape = side.constant((HEADS, -1, FEATURES), INT)
                    side.builder.add_operation(Op.TFLITE_RESHAPE, [held, shape], [result])
                sides.append(inner.model(side.finish([held, added], [result])))
            is_early = inner.value(BOOL, (1,))
            inner.builder.add_operation(Op.LESS, [given[0], inner.constant([100], INT)], [is_early])
            inner.builder.add_operation(Op.IF, [is_early, *sides, old, value], [new])
        else:
            inner.builder.add_operation(Op.CONCATENATION, [old, value, number(inner, 1)], [new])
        longer.append(new)
        if is_read:
            scores, weighed = inner.value(FLOAT, (HEADS, 1, 0)), inner.value(FLOAT, row)
            add, flags = inner.builder.add_operation, [inner.builder.add_operand(T.BOOL) for _ in range(2)]
            for flag, holds_flag in zip(flags, (False, True), strict=True):
                inner.builder.set_operand_value(flag, holds_flag)
            add(Op.BATCH_MATMUL, [value, new, *flags], [scores])
            weights, beta = inner.value(FLOAT, (HEADS, 1, 0)), inner.builder.add_operand(T.FLOAT32)
            inner.builder.set_operand_value(beta, 0.25)
            add(Op.SOFTMAX, [scores, beta], [weights])
            add(Op.BATCH_MATMUL, [weights, new, flags[0], flags[0]], [weighed])
            value = inner.binary(Op.MUL, weighed, inner.constant([0.5]), inner.value(FLOAT, row))
            value = inner.binary(ADD, value, given[1], inner.value(FLOAT, row))
    if not is_read:
        value = inner.binary(Op.MUL, value, inner.constant([0.5]), inner.value(FLOAT, row))
    models = condition.finish(tested, [holds]), inner.finish(given, [counted, value, *longer])
    limit = graph.value(INT, (1,))
    first = [graph.value(FLOAT, row), *(graph.value(FLOAT, (HEADS, 2, FEATURES)) for _ in range(depth))]
    outputs = [graph.value(*kind) for kind in kinds[:-1]]
    arguments = [*map(graph.model, models), graph.constant([0], INT), *first, limit]
    graph.builder.add_operation(Op.WHILE, arguments, outputs)
    return graph.finish([*first, limit], outputs)


@sweep("depth", [1, 2])
@sweep("is_read,sometimes", [(False, False), (True, False), (True, True)])
def test_rows_of_heads_are_appended_in_place(
    caplog: pytest.LogCaptureFixture, depth: int, *, is_read: bool, sometimes: bool
) -> None:
    """The copies of a turn move what is appended, not the rows of all heads.

    Caches begin with fewer rows than a vector has elements, and outgrow their memory several times.
    """
    caplog.set_level(logging.INFO, "neurald")
    model = cached(depth=depth, is_read=is_read, sometimes=sometimes)
    row = 4 * HEADS * FEATURES
    assert copied_bytes(model) <= (depth + 2) * row + 8
    generator = np.random.default_rng(depth)
    arrays = [generator.integers(-2, 3, (HEADS, 1, FEATURES)).astype(np.float32)]
    arrays += [generator.integers(-2, 3, (HEADS, 2, FEATURES)).astype(np.float32) for _ in range(depth)]
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    for count in (0, 1, 2, 33, 150):
        found, wanted = (each.run(*arrays, turns(count)) for each in (compiled, reference))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        assert found[-1].shape == (HEADS, 2 + (min(count, 100) if sometimes else count), FEATURES)
    assert "runs on references" not in caplog.text


def random_caches(seed: int) -> tuple[nd.Model, list[Array]]:
    """Returns a loop that appends random rows to caches, copies and swaps them, with inputs."""
    rng = random.Random(seed)
    count, axis = rng.randint(1, 3), rng.choice((1, 1, 2))
    fixed = [HEADS, 0, FEATURES] if axis == 1 else [2, HEADS, 0, FEATURES]
    along = axis

    def of_length(length: int) -> tuple[int, ...]:
        return (*fixed[:along], length, *fixed[along + 1 :])

    graph, condition, inner = Graph(), Graph(), Graph()
    kinds = [(INT, (1,)), (FLOAT, of_length(1)), *[(FLOAT, of_length(0))] * count, (INT, (1,))]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, inner))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], tested[-1]], [holds])
    counted = inner.binary(ADD, given[0], inner.constant([1], INT), inner.value(INT, (1,)))
    row = inner.binary(ADD, given[1], inner.constant([1.0]), inner.value(FLOAT, of_length(1)))
    caches = given[2:-1]

    def first_row(cache: int) -> int:
        result = inner.value(FLOAT, of_length(1))
        limits = [inner.constant(each, INT) for each in ([0] * len(fixed), of_length(1))]
        inner.builder.add_operation(Op.TFLITE_SLICE, [cache, *limits], [result])
        return result

    def appended(cache: int, *parts: int) -> int:
        result = inner.value(FLOAT, of_length(0))
        inner.builder.add_operation(Op.TFLITE_CONCATENATION, [cache, *parts, number(inner, along)], [result])
        return result

    results = []
    for cache in caches:
        kind = rng.random()
        parts = [rng.choice((row, first_row(rng.choice(caches)))) for _ in range(rng.choice((1, 1, 2)))]
        # Some caches are replaced by others, and some stay what they are.
        results.append(appended(cache, *parts) if kind < 0.8 else appended(rng.choice(caches), *parts))
    if rng.random() < 0.3:
        rng.shuffle(results)
    if rng.random() < 0.5:
        row = inner.binary(ADD, row, first_row(rng.choice(results)), inner.value(FLOAT, of_length(1)))
    models = condition.finish(tested, [holds]), inner.finish(given, [counted, row, *results])
    lengths = [1, *(rng.randint(2, 4) for _ in caches)]
    inputs = [*(graph.value(FLOAT, of_length(each)) for each in lengths), graph.value(INT, (1,))]
    outputs = [graph.value(*kind) for kind in kinds[:-1]]
    arguments = [*map(graph.model, models), graph.constant([0], INT), *inputs]
    graph.builder.add_operation(Op.WHILE, arguments, outputs)
    generator = np.random.default_rng(seed)
    arrays = [generator.integers(-3, 4, of_length(each)).astype(np.float32) for each in lengths]
    return graph.finish(inputs, outputs), arrays


#: Also those of which parts of a concatenation may be empty.
@sweep("seed", [*range(8), 100_031, 100_043])
def test_random_caches(caplog: pytest.LogCaptureFixture, seed: int) -> None:
    caplog.set_level(logging.INFO, "neurald")
    model, arrays = random_caches(seed)
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    for count in (0, 1, 5, 40):
        found, wanted = (each.run(*arrays, turns(count)) for each in (compiled, reference))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    assert "runs on references" not in caplog.text
