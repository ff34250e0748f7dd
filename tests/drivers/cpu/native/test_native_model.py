"""Compiled steps on aligned and unaligned memory, which is used in place or copied."""

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.cpu.routines import adding, bound, chain, native, requiring, side_by_side
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native import native_model
from neurald.drivers.cpu.native.instances import room
from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.instances.instance import Instance
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.records.step_records import StepRecords
from neurald.drivers.cpu.target.executable import Executable, Instruction
from neurald.drivers.cpu.target.kernel_calls import KernelCall
from neurald.drivers.cpu.target.routine import ARRAY_ALIGNMENT
from neurald.drivers.cpu.target.step_sizes import StepSizes
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.errors import MissedDeadlineTransient, OpFailed
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.records import replace

pytestmark = pytest.mark.quick

COUNT = 100


def memory(offset: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Returns INT32 values that begin `offset` bytes after a multiple of 64."""
    found: np.ndarray[tuple[int, ...], np.dtype[np.int32]] = aligned_zeros(4 * COUNT + 64, 64)[
        offset : offset + 4 * COUNT
    ].view(np.int32)
    return found


@sweep("source_offset", [0, 4, 16])
@sweep("target_offset", [0, 8, 32])
def test_any_alignment(source_offset: int, target_offset: int) -> None:
    model = native([adding(1, COUNT), adding(2, COUNT)])
    source, target = memory(source_offset), memory(target_offset)
    for first in (0, 7):
        source[:] = np.arange(first, first + COUNT)
        model.run(bound(model, source, target))
        assert (target == source + 3).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_without_work_items_are_not_called(threads: int) -> None:
    """They may divide by a length of 0, on which the number of their work items depends."""
    routines = [adding(1, COUNT), replace(requiring(COUNT), work_items=0, cost_ns=1e9)]
    model = native(routines, threads=threads)
    source, target = memory(), memory()
    source[:] = -5
    # The second kernel would refuse a negative element, and store it.
    model.run(bound(model, source, target))
    assert (target == 0).all()


def test_alternating_bindings() -> None:
    """Uses more bindings than an instance caches, some copied, with a profile in between."""
    model = native([adding(1, COUNT), adding(2, COUNT)])
    memories = [(memory(offset), memory(offset)) for offset in (0, 4, 0, 8, 0, 12, 0)]
    bindings = [bound(model, source, target) for source, target in memories]
    for turn in range(3):
        for number, ((source, target), binding) in enumerate(zip(memories, bindings, strict=True)):
            source[:] = 100 * turn + number
            model.run(binding)
            assert (target == 100 * turn + number + 3).all()
        before = [target.copy() for _, target in memories]
        model.profile()
        assert all((target == old).all() for (_, target), old in zip(memories, before, strict=True))


def test_an_output_that_is_the_input() -> None:
    """The second kernel must not read what the first has already written to the output."""
    model = native([adding(1, COUNT)])
    room = aligned_zeros(4 * COUNT + 256, 64)
    source, target = room[: 4 * COUNT].view(np.int32), room[64 : 64 + 4 * COUNT].view(np.int32)
    source[:] = values = np.arange(COUNT)
    model.run(bound(model, source, target))
    assert (target == values + 1).all()


def test_a_requirement_that_does_not_hold() -> None:
    model = native([adding(0, COUNT), requiring(COUNT), adding(5, COUNT)])
    source = np.zeros(COUNT, np.int32)
    assert model.run_arrays([source])[0][0] == 5
    source[0] = -1
    with pytest.raises(OpFailed, match="operation 0: second"):
        model.run_arrays([source])
    source[0] = 2
    assert model.run_arrays([source])[0][0] == 7


def test_profiles() -> None:
    model = native([adding(1, COUNT), adding(2, COUNT)])
    source, target = memory(), memory()
    model.run(bound(model, source, target))
    times = model.profile()
    assert [time.operations for time in times] == [(0,), (1,)]
    assert all(time.duration_ns > 0 and time.label == "adds" for time in times)
    assert not source.any()


def in_sizes(lengths: Sequence[int]) -> dict[int, NativeModel]:
    """Returns a step that adds 3 to each element, for numbers of elements that share memory."""
    model = native([adding(1, COUNT), adding(2, COUNT)])
    return {
        length: model.resized(StepSizes.of(chain([adding(1, length), adding(2, length)])))
        for length in lengths
    }


def test_sizes_take_turns_with_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    models, made = in_sizes((7, 40, 100, 250)), []
    create = Instance.__init__

    def counted(self: Instance, executable: Executable, *arguments: Any, **options: Any) -> None:
        made.append(executable.inputs[0].dimensions)
        create(self, executable, *arguments, **options)

    monkeypatch.setattr(Instance, "__init__", counted)
    for length in (40, 7, 100, 250, 40, 7, 250, 100):
        values = np.arange(length, dtype=np.int32)
        assert np.array_equal(models[length].run_arrays([values])[0], values + 3)
        source, target = memory()[:COUNT], memory()
        source[: min(length, COUNT)] = 1
        if length <= COUNT:
            models[length].run(bound(models[length], source, target))
            assert (target[:length] == 4).all()
            assert not target[length:].any()
        assert len(models[length].profile()) == 2
    assert made == [(250,)]


def test_functions_of_sizes_that_share_memory_get_some_of_their_own_later() -> None:
    models = in_sizes((7, 40, 250))
    functions = {}
    for length, model in models.items():
        binding = ArgumentBinding(model.executable, [None], [None])
        functions[length] = model.array_function(binding, None)
    for turn in range(8):
        for length, function in functions.items():
            assert function is not None
            values = np.arange(turn, turn + length, dtype=np.int32)
            found = function(values)
            assert found is not None
            assert np.array_equal(found[0], values + 3)
            assert function(values[1:]) is None
            assert function(values.astype(np.int64)) is None
    assert all(model._short_instance is not None for model in models.values())


def test_memory_of_a_large_size_is_given_up_when_small_ones_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MIN_BYTES", 1)
    monkeypatch.setattr(room, "PERIOD_S", 0.0)
    models = in_sizes((7, 8, 100_000))
    for length in (100_000, 7, 8, 7):
        values = np.arange(length, dtype=np.int32)
        assert np.array_equal(models[length].run_arrays([values])[0], values + 3)
    assert sum(model.own_bytes() for model in models.values()) == 0
    instance = models[7]._instances.take()
    assert isinstance(instance, Instance)
    assert instance._room_bytes < 10_000


def test_sizes_run_side_by_side() -> None:
    models = in_sizes((7, 40, 100, 250))
    wrong = []

    def run(length: int) -> None:
        for turn in range(50):
            values = np.arange(turn, turn + length, dtype=np.int32)
            if not np.array_equal(models[length].run_arrays([values])[0], values + 3):
                wrong.append(length)

    side_by_side([threading.Thread(target=run, args=(length,)) for length in models])
    assert not wrong


@sweep("owner,method", [(StepRecords, "_divided"), (Instance, "_fit_ports")])
def test_a_change_of_sizes_that_is_interrupted_is_made_again(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    models = in_sizes((250, 7))

    def is_right(length: int) -> bool:
        values = np.arange(length, dtype=np.int32)
        return np.array_equal(models[length].run_arrays([values])[0], values + 3)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    assert is_right(250)
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, interrupt)
        with pytest.raises(KeyboardInterrupt):
            is_right(7)
    assert is_right(7)
    assert is_right(250)


def test_executions_wait_for_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_model, "_MAX_INSTANCES", 1)
    model = native([adding(1, COUNT)])
    entered, go_on = threading.Event(), threading.Event()
    original = Instance.run

    def slow(
        instance: Instance,
        binding: ArgumentBinding,
        cancellation: int,
        deadline_ns: int,
        loop_timeout_ns: int,
    ) -> KernelCall | Instruction | None:
        entered.set()
        assert go_on.wait(60)
        return original(instance, binding, cancellation, deadline_ns, loop_timeout_ns)

    monkeypatch.setattr(Instance, "run", slow)
    source = np.zeros(COUNT, np.int32)
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(int(model.run_arrays([source])[0][0])))
        for _ in range(3)
    ]
    threads[0].start()
    assert entered.wait(60)
    with pytest.raises(MissedDeadlineTransient, match="other executions"):
        model.run_arrays([source], deadline_s=time.monotonic() + 0.01)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert results == [1, 1, 1]


_EXITING = """
import atexit, os, threading

ended, runs = threading.Event(), [0]

def check():
    before = runs[0]
    if not ended.wait(3) and runs[0] > before:
        os._exit(3)

# Registered first, so it runs last.
atexit.register(check)

import numpy as np
import neurald as nd

builder = nd.ModelBuilder()
tensor = nd.OperandType.TENSOR_FLOAT32
x, weights = (builder.add_operand(tensor, (1536, 1536)) for _ in range(2))
bias = builder.add_operand(tensor, (1536,))
builder.set_operand_value(bias, np.zeros(1536, np.float32))
activation = builder.add_operand(nd.OperandType.INT32)
builder.set_operand_value(activation, 0)
y = builder.add_operand(tensor, (1536, 1536))
builder.add_operation(nd.OperationType.FULLY_CONNECTED, [x, weights, bias, activation], [y])
builder.identify_inputs_and_outputs([x, weights], [y])
builder = nd.CompilationBuilder(builder.finish(), [nd.devices()[0]], threads=1)
builder.set_caching(None)
compilation, ones = builder.finish(), np.ones((1536, 1536), np.float32)

def execute():
    try:
        while True:
            compilation.run(ones, ones)
            runs[0] += 1
    except nd.Error:
        ended.set()

threading.Thread(target=execute, daemon=True).start()
while not runs[0]:
    threading.Event().wait(0.01)
"""


def test_executions_of_daemon_threads_end_before_the_interpreter_does() -> None:
    """The interpreter would free memory and code under threads that run native code."""
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _EXITING],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def _at(offset: int, values: np.ndarray) -> np.ndarray:
    """Returns the values in memory that begins this many bytes after a multiple of 64."""
    memory = aligned_zeros(values.nbytes + 64)
    placed = memory[offset : offset + values.nbytes].view(values.dtype).reshape(values.shape)
    placed[...] = values
    return placed


@sweep("code", ["NEG", "CUMSUM", "SOFTMAX", "TRANSPOSE", "REVERSE_V2", "PAD"])
@sweep("shape", [(3, 5, 7), (2, 64, 33), (1, 1, 16)])
def test_memory_at_any_address_is_used(code: str, shape: tuple[int, ...]) -> None:
    """A step that moves elements, or computes little, also uses unaligned arrays in place."""
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor(shape)
    fields: dict[str, Any] = {"Beta": 1.0} if code == "SOFTMAX" else {}
    arguments: dict[str, np.ndarray] = {
        "CUMSUM": np.array(1),
        "TRANSPOSE": np.array((2, 0, 1)),
        "REVERSE_V2": np.array((1,)),
        "PAD": np.array(((1, 0), (0, 2), (3, 1))),
    }
    given = arguments.get(code)
    inputs = [source]
    if given is not None:
        inputs.append(graph.tensor(given.shape, "INT32", data=given, has_rank=not given.shape))
    wanted_shape = {
        "TRANSPOSE": (shape[2], shape[0], shape[1]),
        "PAD": (shape[0] + 1, shape[1] + 2, shape[2] + 4),
    }.get(code, shape)
    result = graph.tensor(wanted_shape)
    options = {"CUMSUM": "CumsumOptions", "SOFTMAX": "SoftmaxOptions"}.get(code)
    graph.operator(code, inputs, (result,), options, **fields)
    graph.inputs, graph.outputs = (source,), (result,)
    model = nd.load_tflite(file.build())
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    (wanted,) = reference.run(values)
    for offset in (0, 4, 8, 16, 20, 32, 48):
        given_at, found = _at(offset, values), _at(offset, np.zeros(wanted_shape, np.float32))
        execution = nd.Execution(compiled, reusable=True)
        execution.set_input(0, given_at)
        execution.set_output(0, found)
        for _ in range(2):
            found[...] = np.nan
            execution.compute()
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(compiled.run(given_at)[0], wanted, rtol=1e-5, atol=1e-6)


@sweep("kind", ["INT8", "UINT8"])
def test_floats_are_quantised_where_they_are(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying an array of NumPy to aligned memory would take as long as quantising it."""
    file = TfliteModel()
    graph = file.subgraph()
    source, result = graph.tensor((40_000,)), graph.tensor((40_000,), kind, scale=0.05, zero_point=3)
    graph.operator("QUANTIZE", (source,), (result,))
    graph.inputs, graph.outputs = (source,), (result,)
    alignments: list[int] = []
    alignment_for = Instance._alignment_for

    def found(self: Instance, *arguments: Any) -> int:
        alignments.append(alignment_for(self, *arguments))
        return alignments[-1]

    monkeypatch.setattr(Instance, "_alignment_for", found)
    compilation = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
    compilation.run(np.zeros(40_000, np.float32))
    assert set(alignments) == {ARRAY_ALIGNMENT}
