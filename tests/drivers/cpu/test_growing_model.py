"""Models in which lengths change while they run compute what references do."""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.models.control_flow import ADD, BOOL, FLOAT, INT, Graph, T
from support.models.random_loops import random_loops
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice, process_settings
from neurald.drivers.cpu.growing_model import GrowingModel
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native_segment import NativeSegment
from neurald.drivers.cpu.open_model import read_open_artifact
from neurald.drivers.cpu.parts import read_parts
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.target.executable import Opcode
from neurald.drivers.cpu.target.target import host_target
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, Error, MissedDeadlineTransient
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.operations.machinery.call import Array

Op = nd.OperationType
WIDTH = 3
#: More turns than are unrolled.
MANY = 300


def number(graph: Graph, value: int) -> int:
    index = graph.builder.add_operand(nd.OperandType.INT32)
    graph.builder.set_operand_value(index, value)
    return index


def results(model: nd.Model, device: nd.Device, *arrays: Array) -> list[Array] | None:
    """Returns the results, or None if the execution fails."""
    try:
        found = nd.CompilationBuilder(model, [device]).finish().run(*arrays)
    except Error:
        return None
    return [np.asarray(each) for each in found]


def assert_same(model: nd.Model, *arrays: Array) -> list[Array]:
    """Compares the results with those of the references."""
    found, wanted = (results(model, device, *arrays) for device in (CpuDevice(), ReferenceDevice()))
    assert found is not None
    assert wanted is not None
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    return found


def over(
    body: Callable[[Graph, int, int], int],
    *,
    shape: Sequence[int] = (0, WIDTH),
    turns: int = 0,
    first: int = 2,
) -> nd.Model:
    """Returns a loop over a counter and a value.

    Args:
        body: adds the body: gets its graph, the counter and the value, and returns the next value.
        shape: of the value in the loop.
        turns: the number of turns; 0 if it is an input.
        first: number of rows before the first turn.
    """
    graph, condition, inner = Graph(), Graph(), Graph()
    kinds = [(INT, (1,)), (FLOAT, shape), (INT, (1,))]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, inner))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], tested[2]], [holds])
    counted = inner.binary(ADD, given[0], inner.constant([1], INT), inner.value(INT, (1,)))
    following = body(inner, given[0], given[1])
    models = condition.finish(tested, [holds]), inner.finish(given, [counted, following])
    value, limit = graph.value(FLOAT, (first, *shape[1:])), graph.value(INT, (1,))
    inputs = [value, limit]
    if turns:
        limit = graph.constant([turns], INT)
        inputs = [value]
    outputs = [graph.value(*kind) for kind in kinds[:2]]
    arguments = [*map(graph.model, models), graph.constant([0], INT), value, limit]
    graph.builder.add_operation(Op.WHILE, arguments, outputs)
    return graph.finish(inputs, outputs)


def pushed(graph: Graph, _: int, value: int) -> int:
    """Appends the first row plus 1."""
    row, longer = graph.value(shape=(1, WIDTH)), graph.value(shape=(0, WIDTH))
    first = graph.value(shape=(1, WIDTH))
    limits = [graph.constant(each, INT) for each in ((0, 0), (1, WIDTH))]
    graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [first])
    graph.binary(ADD, first, graph.constant([1.0]), row)
    graph.builder.add_operation(Op.CONCATENATION, [value, row, number(graph, 0)], [longer])
    return longer


def divided_sum(graph: Graph, value: int, reduction: nd.OperationType = Op.TFLITE_SUM) -> int:
    """Removes the first row, and adds quotients of the sum of all elements to each other row."""
    shorter, total = graph.value(shape=(0, WIDTH)), graph.value(shape=(1, 1))
    limits = [graph.constant(each, INT) for each in ((1, 0), (-1, -1))]
    graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [shorter])
    flag = graph.builder.add_operand(nd.OperandType.BOOL)
    graph.builder.set_operand_value(flag, value=True)
    graph.builder.add_operation(reduction, [shorter, graph.constant([0, 1], INT), flag], [total])
    parts = graph.binary(Op.DIV, total, graph.constant([2.0, 4.0, 8.0]), graph.value(shape=(1, WIDTH)))
    return graph.binary(ADD, shorter, parts, graph.value(shape=(0, WIDTH)))


def unchanged(graph: Graph, value: int) -> int:
    """Copies a value."""
    result = graph.value(shape=(0, WIDTH))
    graph.builder.add_operation(Op.TFLITE_RESHAPE, [value, graph.constant((-1, WIDTH), INT)], [result])
    return result


def rows(count: int = 2) -> Array:
    return np.arange(count * WIDTH, dtype=np.float32).reshape(count, WIDTH)


def turns(count: int) -> Array:
    return np.array([count], np.int32)


#: Random programs with each of the forms that have been refused once: slices of a row of which the
#: length follows from data, lists that are empty at first, slices of constants, and sums of no
#: rows.
_SEEDS = [(seed, False) for seed in (4, 33, 54, 57, 60, 62, 141, 162)]


@sweep("seed,appends", [*_SEEDS, *((seed, True) for seed in range(6))])
def test_random_programs(seed: int, *, appends: bool, caplog: pytest.LogCaptureFixture) -> None:
    model, executions = random_loops(seed, grows=True, appends=appends)
    with caplog.at_level(logging.INFO, "neurald"):
        compiled, reference = (
            nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
        )
        for arrays in executions:
            try:
                wanted = reference.run(*arrays)
            except Error:
                # Compiled code does not compute what nothing reads.
                continue
            for found, result in zip(compiled.run(*arrays), wanted, strict=True):
                np.testing.assert_array_equal(found, result)
    assert "not compiled as a whole" not in caplog.text
    assert "runs on references" not in caplog.text


@sweep("count", [0, 1, 2, 31, 400])
def test_lists_that_grow(count: int) -> None:
    _, found = assert_same(over(pushed), rows(), turns(count))
    assert found.shape == (2 + count, WIDTH)


def test_executions_use_the_memory_of_earlier_ones() -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    for count in (MANY, 3, 2 * MANY, 0):
        counter, found = compilation.run(rows(), turns(count))
        assert counter.tolist() == [count]
        assert found.tolist() == [[0, 1, 2], [3, 4, 5], *[[1, 2, 3]] * count]


def test_concurrent_executions() -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    lengths: list[int] = []

    def execute(count: int) -> None:
        for _ in range(5):
            lengths.append(len(compilation.run(rows(), turns(count))[1]) - count)

    threads = [threading.Thread(target=execute, args=(10 * MANY * n,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert lengths == [2] * 20


def test_bodies_are_compiled_once() -> None:
    """The number of kernels does not depend on the number of turns."""
    few, many = (
        CpuDevice().prepare_model(over(pushed, turns=count), PrepareOptions()) for count in (MANY, 10**6)
    )
    assert isinstance(few, GrowingModel)
    assert isinstance(many, GrowingModel)
    assert len(few.native.executable.calls) == len(many.native.executable.calls) < 10


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


def test_lists_that_shrink_to_nothing() -> None:
    def shorter(graph: Graph, _: int, value: int) -> int:
        result = graph.value(shape=(0, WIDTH))
        limits = [graph.constant(each, INT) for each in ((1, 0), (-1, -1))]
        graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [result])
        return result

    for count in (0, 1, 2):
        _, found = assert_same(over(shorter), rows(), turns(count))
        assert found.shape == (2 - count, WIDTH)
    # A slice of nothing is an error, which references report.
    assert results(over(shorter), CpuDevice(), rows(), turns(3)) is None


def test_attention_over_rows_that_grow() -> None:
    """The products and the softmax have other lengths in each turn."""

    def attended(graph: Graph, _: int, value: int) -> int:
        query, scores = graph.value(shape=(1, WIDTH)), graph.value(shape=(1, 0))
        limits = [graph.constant(each, INT) for each in ((0, 0), (1, WIDTH))]
        graph.builder.add_operation(Op.TFLITE_SLICE, [value, *limits], [query])
        flags = [graph.builder.add_operand(nd.OperandType.BOOL) for _ in range(2)]
        for flag, is_set in zip(flags, (False, True), strict=True):
            graph.builder.set_operand_value(flag, value=is_set)
        no, yes = flags
        graph.builder.add_operation(Op.BATCH_MATMUL, [query, value, no, yes], [scores])
        beta = graph.builder.add_operand(nd.OperandType.FLOAT32)
        graph.builder.set_operand_value(beta, 0.5)
        weights, row = graph.value(shape=(1, 0)), graph.value(shape=(1, WIDTH))
        graph.builder.add_operation(Op.SOFTMAX, [scores, beta], [weights])
        graph.builder.add_operation(Op.BATCH_MATMUL, [weights, value, no, no], [row])
        longer = graph.value(shape=(0, WIDTH))
        graph.builder.add_operation(Op.CONCATENATION, [value, row, number(graph, 0)], [longer])
        return longer

    model = over(attended)
    for count in (0, 1, 14, 40):
        found, wanted = (
            results(model, device, rows() / 4, turns(count)) for device in (CpuDevice(), ReferenceDevice())
        )
        assert found is not None
        assert wanted is not None
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)


def test_lengths_for_which_the_code_is_not_valid_run_on_references(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The maximum of no rows is one of them."""
    model = over(lambda graph, _, value: divided_sum(graph, value, Op.TFLITE_REDUCE_MAX), first=6)
    with caplog.at_level(logging.INFO, "neurald"):
        assert_same(model, rows(6), turns(3))
        assert "runs on references" not in caplog.text
        assert_same(model, rows(6), turns(6))
        assert "runs on references" in caplog.text


HEADS, FEATURES = 3, 8


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
    """Returns a loop that appends random rows to caches, copies and exchanges them; and its inputs."""
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


@sweep("count", [2, 3, 40, 300])
def test_lists_that_shrink_until_they_are_empty(count: int, caplog: pytest.LogCaptureFixture) -> None:
    """Rows are taken from the front while there are any."""
    graph, condition, body = Graph(), Graph(), Graph()
    kinds = [(FLOAT, (0, WIDTH)), (FLOAT, (1, WIDTH))]
    tested, given = ([each.value(*kind) for kind in kinds] for each in (condition, body))
    shape, left, holds = condition.value(INT, (2,)), condition.value(INT, (1,)), condition.value(BOOL, (1,))
    limits = [condition.constant([each], INT) for each in (0, 1)]
    condition.builder.add_operation(Op.TFLITE_SHAPE, [tested[0]], [shape])
    condition.builder.add_operation(Op.TFLITE_SLICE, [shape, *limits], [left])
    condition.builder.add_operation(Op.GREATER, [left, limits[0]], [holds])
    first, shorter = body.value(FLOAT, (1, WIDTH)), body.value(FLOAT, (0, WIDTH))
    for begin, size, result in (((0, 0), (1, WIDTH), first), ((1, 0), (-1, -1), shorter)):
        limits = [body.constant(each, INT) for each in (begin, size)]
        body.builder.add_operation(Op.TFLITE_SLICE, [given[0], *limits], [result])
    half = body.binary(Op.MUL, given[1], body.constant([0.5]), body.value(*kinds[1]))
    total = body.binary(ADD, half, first, body.value(*kinds[1]))
    models = condition.finish(tested, [holds]), body.finish(given, [shorter, total])
    inputs, outputs = ([graph.value(*kind) for kind in kinds] for _ in range(2))
    graph.builder.add_operation(Op.WHILE, [*map(graph.model, models), *inputs], outputs)
    model = graph.finish(inputs, outputs)
    with caplog.at_level(logging.INFO, "neurald"):
        found = assert_same(model, rows(count), np.ones((1, WIDTH), np.float32))
    assert len(found[0]) == 0
    assert "runs on references" not in caplog.text
    assert "not compiled" not in caplog.text


def test_time_outs_and_deadlines_end_loops_that_grow() -> None:
    model = CpuDevice().prepare_model(over(pushed), PrepareOptions())
    assert isinstance(model, GrowingModel)
    arrays = rows(), turns(2**30)
    started = time.monotonic()
    with pytest.raises(MissedDeadlineTransient):
        model.native.run_arrays(arrays, loop_timeout_s=0.05)
    with pytest.raises(MissedDeadlineTransient):
        model.native.run_arrays(arrays, deadline_s=time.monotonic() + 0.05)
    assert time.monotonic() - started < 5


def test_outputs_that_do_not_fit_are_reported() -> None:
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    execution = nd.Execution(compilation)
    execution.set_input(0, rows())
    execution.set_input(1, turns(5))
    small = np.zeros((3, WIDTH), np.float32)
    execution.set_output(0, np.zeros(1, np.int32))
    execution.set_output(1, small)
    with pytest.raises(Error, match="output 1"):
        execution.compute()
    assert not small.any()


def test_other_processes_compile_models_whose_lengths_change() -> None:
    """What a compiling process returns is restored with the model; damaged contents are refused."""
    model = over(pushed)
    device = CpuDevice()
    compiled = device.compile(model, None, PrepareOptions())
    assert compiled.artifact is not None
    steps = read_parts(compiled.artifact, model, lambda each: device._restored(each, 1))
    restored = ReferenceModel(model, steps)
    (segment,) = restored.steps[0]
    assert isinstance(segment, NativeSegment)
    assert segment.native.opened is not None
    found = segment.run([rows(), turns(70)], ExecuteOptions())
    assert found is not None
    assert found[1][0].shape == (72, WIDTH)
    opened = segment.native.opened
    for damaged in (
        msgspec.structs.replace(opened, sizings=(len(opened.template.calls),)),
        msgspec.structs.replace(opened, extents=(*opened.extents, 0)),
        msgspec.structs.replace(opened, instructions=opened.instructions[1:]),
        msgspec.structs.replace(opened, symbols=()),
    ):
        with pytest.raises(BadData):
            damaged.check()


def test_models_whose_lengths_change_are_cached(tmp_path: Path) -> None:
    """The second compilation restores the code."""
    for _ in range(2):
        builder = nd.CompilationBuilder(over(pushed), [CpuDevice()])
        builder.set_caching(tmp_path, b"0" * 32)
        compilation = builder.finish()
        assert compilation.run(rows(), turns(40))[1].shape == (42, WIDTH)


def test_lengths_that_follow_from_data() -> None:
    """RANGE, and RESHAPE to a computed shape."""
    graph = Graph()
    flag = graph.builder.add_operand(nd.OperandType.BOOL)
    graph.builder.set_operand_value(flag, value=False)

    def scalar(index: int) -> int:
        result = graph.value(INT, ())
        graph.builder.add_operation(Op.TFLITE_SUM, [index, graph.constant([0], INT), flag], [result])
        return result

    limit, shape, value = graph.value(INT, (1,)), graph.value(INT, (2,)), graph.value(FLOAT, (4, 6))
    numbers, reshaped, total = graph.value(INT, (0,)), graph.value(FLOAT, (0, 0)), graph.value(FLOAT, (0,))
    ends = [scalar(each) for each in (graph.constant([1], INT), limit, graph.constant([2], INT))]
    graph.builder.add_operation(Op.TFLITE_RANGE, ends, [numbers])
    graph.builder.add_operation(Op.TFLITE_RESHAPE, [value, shape], [reshaped])
    graph.builder.add_operation(Op.TFLITE_SUM, [reshaped, graph.constant([1], INT), flag], [total])
    model = graph.finish([limit, shape, value], [numbers, total])
    assert isinstance(CpuDevice().prepare_model(model, PrepareOptions()), GrowingModel)
    source = np.arange(24, dtype=np.float32).reshape(4, 6)
    for end, lengths in ((2, (3, 8)), (40, (12, 2)), (1, (1, 24)), (9, (24, 1)), (7, (-1, 4))):
        assert_same(model, turns(end), np.array(lengths, np.int32), source)
    assert results(model, CpuDevice(), turns(3), np.array([5, 5], np.int32), source) is None


def test_open_lengths_of_models_with_loops() -> None:
    """Code for any lengths of the inputs is compiled once."""
    model = over(pushed, first=0)
    preparation = Preparation(host_target(process_settings()), 1, keeps_artifact=True)
    opened = preparation.open(model, {model.main.inputs[0]: (67, WIDTH)})
    assert opened is not None
    read = read_open_artifact(opened.artifact())
    assert read.opened.sizings
    restored = CpuDevice()._restored_open(model, opened.artifact(), 1)
    for length, count in ((2, 5), (7, 100), (300, 3), (2, 0), (15, 40)):
        for each in (opened, restored):
            variant = each.for_shapes([(length, WIDTH), (1,)])
            assert isinstance(variant, GrowingModel)
            assert variant.operand(0, is_output=False).dimensions == (length, WIDTH)
            _, found = variant.native.run_arrays([rows(length), turns(count)])
            np.testing.assert_array_equal(found[:length], rows(length))
            np.testing.assert_array_equal(found[length:], np.tile(rows(1) + 1, (count, 1)))
    assert opened.for_shapes([(1, WIDTH), (1,)]) is None
    assert opened.for_shapes([(5, WIDTH + 1), (1,)]) is None
    assert opened.for_shapes([(5, WIDTH)]) is None
    compilation = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    for length in (5, 9, 1, 40):
        assert compilation.run(rows(length), turns(3))[1].shape == (length + 3, WIDTH)


def test_each_run_executes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs get the sizes that the execution finds."""
    executed: list[NativeModel] = []
    run = NativeModel.run

    def counted(self: NativeModel, *arguments: Any, **limits: Any) -> None:
        executed.append(self)
        run(self, *arguments, **limits)

    monkeypatch.setattr(NativeModel, "run", counted)
    compilation = nd.CompilationBuilder(over(pushed), [CpuDevice()]).finish()
    for number, count in enumerate((50, 50, 49, 70, 2), start=1):
        _, found = compilation.run(rows(), turns(count))
        assert found.shape == (2 + count, WIDTH)
        assert len(executed) == number


def test_descriptions_of_operands() -> None:
    """Operands with lengths that change are declared as open."""
    model = CpuDevice().prepare_model(over(pushed), PrepareOptions())
    assert isinstance(model, GrowingModel)
    assert model.operand(1, is_output=True).dimensions == (0, WIDTH)
    assert model.operand(0, is_output=True).dimensions == (1,)
    assert model.operand(0, is_output=False).dimensions == (2, WIDTH)


def test_paddings_that_are_data_are_those_of_each_run() -> None:
    """Code for the paddings that were tried must not run for others."""
    builder = nd.ModelBuilder()
    given = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (3,))
    paddings = builder.add_operand(nd.OperandType.TENSOR_INT32, (1, 2))
    output = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (7,))
    builder.add_operation(nd.OperationType.PAD, [given, paddings], [output])
    builder.identify_inputs_and_outputs([given, paddings], [output])
    compilation = nd.CompilationBuilder(builder.finish(), [nd.devices()[0]]).finish()
    values = np.array([1, 2, 3], np.float32)
    for before in (3, 0, 2, 4):
        (found,) = compilation.run(values, np.array([[before, 4 - before]], np.int32))
        np.testing.assert_array_equal(found, np.pad(values, (before, 4 - before)))
