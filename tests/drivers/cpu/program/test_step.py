"""Loops and branches that are compiled as a whole give the results of the references."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from support.models.control_flow import (
    ADD,
    BOOL,
    FLOAT,
    INT,
    MUL,
    Graph,
    arithmetic,
    below,
    branching,
    counting,
    loop,
)
from support.models.random_loops import random_loops
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.cpu.artifact import check_executable
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.executable import Executable, Opcode
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import BadData, Cancelled, Error, MissedDeadlineTransient, OpFailed
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation

Op = nd.OperationType
#: Runs long enough for any limit of time.
FOREVER = 1e30


def prepared(model: nd.Model, threads: int = 1) -> CpuPreparedModel:
    """Compiles a model, which must be possible as a whole."""
    found = CpuDevice().prepare_model(model, PrepareOptions(threads=threads, cache_key=bytes(32)))
    assert isinstance(found, CpuPreparedModel)
    return found


def run(model: CpuPreparedModel, *arrays: Array, **limits: Any) -> list[Array]:
    return model.native.run_arrays(arrays, **limits)


def expected(model: nd.Model, arrays: Sequence[Array]) -> list[Array] | None:
    """Returns the results of the references; None if they fail."""
    compilation = nd.CompilationBuilder(model, [ReferenceDevice()]).finish()
    try:
        return [np.asarray(each) for each in compilation.run(*arrays)]
    except Error:
        return None


@sweep("seed", range(10), full=range(10, 40))
def test_random_programs(seed: int) -> None:
    model, executions = random_loops(seed)
    compiled = prepared(model, threads=1 + seed % 3)
    artifact = compiled.artifact()
    assert artifact is not None
    restored = CpuDevice().prepare_model_from_cache(artifact, PrepareOptions())
    for arrays in executions:
        wanted = expected(model, arrays)
        assert wanted is not None
        for each in (compiled, restored):
            for found, result in zip(run(each, *arrays), wanted, strict=True):
                np.testing.assert_array_equal(found, result)


@sweep("seed", range(1000, 1006), full=range(1006, 1012))
def test_random_programs_that_may_fail(seed: int) -> None:
    """A program fails only if the references fail; they also compute what nothing reads."""
    model, executions = random_loops(seed, may_fail=True)
    compilation = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    for arrays in executions:
        wanted = expected(model, arrays)
        try:
            results = compilation.run(*arrays)
        except OpFailed:
            assert wanted is None
            continue
        if wanted is not None:
            for found, result in zip(results, wanted, strict=True):
                np.testing.assert_array_equal(found, result)


@sweep("turns", [0, 1, 5, 1_000_000])
def test_trip_counts(turns: int) -> None:
    model = loop(below(float(turns), extra=1), counting(1, 1))
    executable = prepared(model).native.executable
    assert len(executable.calls) <= 3
    counter, value = run(
        prepared(model), np.zeros(1, np.float32), np.ones(2, np.float32), loop_timeout_s=15.0
    )
    assert counter.tolist() == [turns]
    assert value.tolist() == [1, 1]


def test_compiled_code_does_not_grow_with_the_trip_count() -> None:
    few, many = (
        prepared(loop(below(turns, extra=1), counting(1, 2))).native.executable for turns in (5.0, 1e6)
    )
    assert len(few.calls) == len(many.calls)
    assert len(few.instructions) == len(many.instructions)


def endless(step: float = 0.0) -> tuple[CpuPreparedModel, tuple[Array, Array]]:
    """Returns a loop that does not end, and its arguments."""
    model = prepared(loop(below(FOREVER, extra=1), counting(step, 1)))
    return model, (np.zeros(1, np.float32), np.ones(2, np.float32))


@pytest.mark.timed
@sweep("timeout_s", [0.0, 0.02])
def test_loop_timeouts(timeout_s: float) -> None:
    model, arrays = endless()
    started = time.monotonic()
    with pytest.raises(
        MissedDeadlineTransient,
        match=r"WHILE ran longer than its loop timeout; .* 2 s, and .* takes up to 15 s",
    ):
        run(model, *arrays, loop_timeout_s=timeout_s)
    # By default, a loop ends after two seconds.
    assert timeout_s <= time.monotonic() - started < timeout_s + 1.5


def test_each_loop_has_its_own_timeout() -> None:
    """The inner loop begins again in every turn of the outer one, which is what takes too long."""
    body = Graph()
    counter, value = body.value(shape=(1,)), body.value()
    outputs = [body.value(shape=(1,)), body.value()]
    inner = [body.model(below(1000.0, extra=1)), body.model(counting(1, 1))]
    body.builder.add_operation(Op.WHILE, [*inner, body.constant([0.0]), value], outputs)
    counted = body.binary(ADD, counter, body.constant([0]), body.value(shape=(1,)))
    own = body.binary(ADD, outputs[1], body.constant([0]), body.value())
    both = below(FOREVER, extra=1), body.finish([counter, value], [counted, own])
    model = prepared(loop(*both))
    with pytest.raises(MissedDeadlineTransient, match="WHILE ran longer"):
        run(model, np.zeros(1, np.float32), np.ones(2, np.float32), loop_timeout_s=0.05)


@pytest.mark.timed
def test_deadlines_and_cancellation() -> None:
    model, arrays = endless()
    started = time.monotonic()
    with pytest.raises(MissedDeadlineTransient, match="the deadline passed in operation 0"):
        run(model, *arrays, deadline_s=started + 0.02, loop_timeout_s=15.0)
    cancellation = Cancellation()
    timer = threading.Timer(0.02, cancellation.cancel)
    timer.start()
    with pytest.raises(Cancelled, match="in operation 0"):
        run(model, *arrays, cancellation=cancellation, loop_timeout_s=15.0)
    assert time.monotonic() - started < 10


@pytest.mark.timed
def test_the_loop_timeout_of_an_execution() -> None:
    """It also holds for a reusable execution that has run before."""
    compilation = nd.CompilationBuilder(loop(below(1.0, extra=1), counting(0, 1)), [CpuDevice()]).finish()
    execution = nd.Execution(compilation, reusable=True)
    counter, value = np.ones(1, np.float32), np.ones(2, np.float32)
    execution.set_input(0, counter)
    execution.set_input(1, value)
    results = [np.zeros(1, np.float32), np.zeros(2, np.float32)]
    for number, result in enumerate(results):
        execution.set_output(number, result)
    execution.set_loop_timeout(0.02)
    execution.compute()
    execution.compute()
    counter[0] = 0
    started = time.monotonic()
    with pytest.raises(MissedDeadlineTransient):
        execution.compute()
    assert time.monotonic() - started < 1


def gathering_loop() -> nd.Model:
    """Sums x[n], x[n + 1], …, x[m - 1]; n and m are inputs."""
    graph, condition, body = Graph(), Graph(), Graph()
    kinds = ((INT, (1,)), (FLOAT, (2,)), (INT, (1,)), (FLOAT, (4, 2)))
    outer, tested, inner = ([each.value(*kind) for kind in kinds] for each in (graph, condition, body))
    holds = condition.value(BOOL, (1,))
    condition.builder.add_operation(Op.LESS, [tested[0], tested[2]], [holds])
    number = body.builder.add_operand(nd.OperandType.INT32)
    body.builder.set_operand_value(number, 0)
    row = body.value(shape=(1, 2))
    body.builder.add_operation(Op.GATHER, [inner[3], number, inner[0]], [row])
    summed = body.value()
    flat = body.value()
    body.builder.add_operation(Op.RESHAPE, [row, body.constant([2], INT)], [flat])
    body.binary(ADD, inner[1], flat, summed)
    counted = body.binary(ADD, inner[0], body.constant([1], INT), body.value(INT, (1,)))
    models = condition.finish(tested, [holds]), body.finish(inner, [counted, summed])
    outputs = [graph.value(INT, (1,)), graph.value()]
    graph.builder.add_operation(Op.WHILE, [*(graph.model(each) for each in models), *outer], outputs)
    return graph.finish(outer, outputs)


def test_requirements_name_the_operation_in_its_graph() -> None:
    model = prepared(gathering_loop())
    values = np.arange(8, dtype=np.float32).reshape(4, 2)

    def summed(first: int, end: int) -> list[Array]:
        return run(
            model, np.array([first], np.int32), np.zeros(2, np.float32), np.array([end], np.int32), values
        )

    assert summed(1, 4)[1].tolist() == [12, 15]
    assert summed(7, 3)[0].tolist() == [7]
    for first, end in ((2, 5), (-1, 1)):
        with pytest.raises(OpFailed, match=r"graph 2 operation 0 GATHER: .*indexes from 0 to 3"):
            summed(first, end)
    # It can be executed again.
    assert summed(3, 4)[1].tolist() == [6, 7]


def test_executions_at_the_same_time() -> None:
    model = prepared(loop(below(20_000.0, extra=1), counting(1, 1)), threads=2)
    results: list[float] = []

    def count(start: float) -> None:
        counter, _ = run(model, np.array([start], np.float32), np.ones(2, np.float32))
        results.append(float(counter[0]) - start % 1)

    threads = [threading.Thread(target=count, args=(n / 8,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [20_000.0] * 4


def test_a_branch_on_an_input() -> None:
    model = prepared(branching(arithmetic(ADD, 10), arithmetic(MUL, 10)))
    for condition, wanted in ((True, [13, 14]), (False, [30, 40])):
        (found,) = run(model, np.array([condition]), np.array([3, 4], np.float32))
        assert found.tolist() == wanted


def test_profiles_name_every_kernel_once() -> None:
    model, arrays = endless(1.0)
    with pytest.raises(MissedDeadlineTransient):
        run(model, *arrays, loop_timeout_s=0.0)
    times = model.profile()
    assert len(times) == len(model.native.executable.calls)
    assert {each.operations for each in times} == {(0,)}
    assert all(each.label.endswith(", in every turn of a loop") for each in times)


def changed(executable: Executable, opcode: Opcode, **fields: Callable[[Any], Any]) -> Executable:
    """Changes fields of the first instruction of a kind."""
    instructions = list(executable.instructions)
    place = next(n for n, each in enumerate(instructions) if each.opcode is opcode)
    values = {name: change(getattr(instructions[place], name)) for name, change in fields.items()}
    instructions[place] = msgspec.structs.replace(instructions[place], **values)
    return msgspec.structs.replace(executable, instructions=tuple(instructions))


def _returned(value: Any, _: object) -> Any:
    return value


def _moved(by: int) -> Callable[[Any], Any]:
    return lambda locations: tuple(
        msgspec.structs.replace(each, offset=each.offset + by) for each in locations
    )


@sweep(
    ("opcode", "fields"),
    [
        (Opcode.CALL, {"number": lambda _: 99}),
        (Opcode.CALL, {"number": lambda _: -1}),
        (Opcode.JUMP, {"target": lambda _: 99}),
        (Opcode.JUMP, {"target": lambda _: -1}),
        (Opcode.TEST_LOOP, {"target": lambda _: 99}),
        (Opcode.TEST_LOOP, {"number": lambda number: number + 1}),
        (Opcode.TEST_LOOP, {"locations": lambda _: ()}),
        (Opcode.TEST_LOOP, {"locations": _moved(1 << 40)}),
        (Opcode.TEST_LOOP, {"locations": _moved(-(1 << 40))}),
        (Opcode.ENTER_LOOP, {"number": lambda _: -1}),
        (Opcode.ENTER_LOOP, {"locations": lambda _: (BufferLocation(Base.ARENA, 0),)}),
        (Opcode.COPY, {"number": lambda _: 1 << 40}),
        (Opcode.COPY, {"number": lambda _: -1}),
        (Opcode.COPY, {"target": lambda _: 1}),
        (Opcode.COPY, {"locations": lambda locations: locations[:1]}),
        (
            Opcode.COPY,
            {
                "locations": lambda locations: tuple(
                    msgspec.structs.replace(each, base=1) for each in locations
                )
            },
        ),
    ],
    ids=str,
)
def test_inconsistent_artifacts(opcode: Opcode, fields: dict[str, Callable[[Any], Any]]) -> None:
    native = endless(1.0)[0].native
    check_executable(native.executable, native.constants.nbytes)
    with pytest.raises(BadData):
        check_executable(changed(native.executable, opcode, **fields), native.constants.nbytes)


def test_copies_whose_lengths_are_set_may_be_of_nothing() -> None:
    """A variable without elements may be at the very end of the arena."""
    native = endless(1.0)[0].native
    end, constants = native.executable.arena_bytes, native.constants.nbytes
    for offset in (0, end, end + 1):
        places = (BufferLocation(Base.ARENA, offset),) * 2
        executable = changed(native.executable, Opcode.COPY, locations=partial(_returned, places))
        if offset <= end:
            check_executable(executable, constants, sets_lengths=True)
        else:
            with pytest.raises(BadData, match="outside its buffer"):
                check_executable(executable, constants, sets_lengths=True)


def test_an_artifact_with_too_many_loops() -> None:
    native = endless(1.0)[0].native
    for loops in (-1, 1 << 30):
        with pytest.raises(BadData, match="loops"):
            check_executable(msgspec.structs.replace(native.executable, loops=loops), native.constants.nbytes)
