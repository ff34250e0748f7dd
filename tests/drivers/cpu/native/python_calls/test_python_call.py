"""Functions of Python that run steps: what they accept, compute, own and release."""

import ctypes
import gc
import pickle
import subprocess
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cpu.routines import adding, bound, native, requiring, side_by_side
from support.daemon.forking import in_child
from support.sweeps import sweep

from neurald.drivers.cpu.native import native_model
from neurald.drivers.cpu.native.instances import short_steps
from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.python_calls import python_call
from neurald.hal.errors import OpFailed
from neurald.hal.memory.private_memory import aligned_zeros

pytestmark = [
    pytest.mark.quick,
    pytest.mark.skipif(
        bool(sysconfig.get_config_var("Py_GIL_DISABLED")) or sys.implementation.name != "cpython",
        reason="these functions need CPython with a GIL",
    ),
]

Array = np.ndarray[Any, np.dtype[Any]]

COUNT = 100
#: So large that outputs are aligned and written in place.
MANY = 4096


@pytest.fixture(params=["short", "long"])
def limit_ns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all steps short ones, which keep the GIL, or none."""
    limit = 1 << 40 if request.param == "short" else -1
    monkeypatch.setattr(short_steps, "_MAX_SHORT_NS", limit)


def memory(offset: int = 0, count: int = COUNT) -> Array:
    """Returns INT32 values that begin `offset` bytes after a multiple of 64."""
    return aligned_zeros(4 * count + 64, 64)[offset : offset + 4 * count].view(np.int32)


def on_arrays(model: NativeModel) -> Callable[..., list[Array] | None]:
    function = model.array_function(ArgumentBinding(model.executable, [None], [None]), None)
    assert function is not None
    return function


def called(function: Callable[..., list[Array] | None], *arrays: Array) -> list[Array]:
    outputs = function(*arrays)
    assert outputs is not None
    return outputs


def short(model: NativeModel, source: Array, target: Array) -> Callable[[], bool]:
    function = model.short_call(bound(model, source, target), (source, target))
    assert function is not None
    return function


def test_this_interpreter_is_supported() -> None:
    assert python_call.python_table()


@sweep("source_offset", [0, 4, 16])
@sweep("target_offset", [0, 8, 32])
def test_short_calls_at_any_alignment(source_offset: int, target_offset: int) -> None:
    source, target = memory(source_offset), memory(target_offset)
    function = short(native([adding(1, COUNT), adding(2, COUNT)]), source, target)
    for first in (0, 7):
        source[:] = np.arange(first, first + COUNT)
        assert function()
        assert (target == source + 3).all()


def test_an_output_may_replace_an_input_if_the_step_finishes() -> None:
    model = native([adding(1, COUNT), requiring(COUNT), adding(0, COUNT)])
    values, target = memory(), memory()
    function = model.short_call(bound(model, values, values), values)
    assert function is not None
    for expected in (1, 2, 3):
        assert function()
        assert values[0] == expected
    values[:] = -5
    assert not function()
    assert (values == -5).all()
    with pytest.raises(OpFailed, match="operation 0: second"):
        model.run(bound(model, values, target))


def test_long_steps_are_not_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_steps, "_MAX_SHORT_NS", 0)
    model = native([adding(1, COUNT)])
    assert model.short_call(bound(model, memory(), memory()), None) is None


@pytest.mark.parametrize("costs", [(1e6,), (1.5e5, 6e4)])
def test_expensive_steps_are_not_even_measured(costs: tuple[float, ...]) -> None:
    model = native([adding(1, COUNT, cost_ns=cost) for cost in costs])
    assert model.short_call(bound(model, memory(), memory()), None) is None


@pytest.mark.usefixtures("limit_ns")
@sweep("count", [1, COUNT, MANY])
def test_arrays_at_changing_alignments(count: int) -> None:
    function = on_arrays(native([adding(1, count), adding(2, count)]))
    kept = []
    for turn, offset in enumerate((0, 4, 0, 16, 60, 0, 0)):
        source = memory(offset, count)
        source[:] = np.arange(turn, turn + count)
        (output,) = called(function, source)
        kept.append((source.copy(), output))
        source[:] = -1
    # No result shares memory with an input, or with what a later call writes.
    for source, output in kept:
        assert output.dtype == np.int32
        assert output.shape == (count,)
        assert output.flags.writeable
        assert output.flags.c_contiguous
        np.testing.assert_array_equal(output, source + 3)
    if count == MANY:
        assert all(output.ctypes.data % 64 == 0 for _, output in kept)


class Subclass(np.ndarray[Any, np.dtype[Any]]):
    """An array whose type is another one."""


@pytest.mark.usefixtures("limit_ns")
@sweep(
    "arguments",
    [
        (),
        (memory(), memory()),
        (None,),
        (3,),
        ([0] * COUNT,),
        (memory().astype(np.int64),),
        (memory().view(np.uint32),),
        (memory().astype(">i4"),),
        (memory()[:-1],),
        (memory().reshape(10, 10),),
        (memory(0, 2 * COUNT)[::2],),
        (memory()[::-1],),
        (memory().view(Subclass),),
        (np.zeros(4 * COUNT + 1, np.uint8)[1:].view(np.int32),),
    ],
    ids=str,
)
def test_other_arguments_are_refused(arguments: tuple[Any, ...]) -> None:
    function = on_arrays(native([adding(1, COUNT)]))
    assert function(*arguments) is None
    assert function(memory()) is not None


@pytest.mark.usefixtures("limit_ns")
def test_arrays_from_another_process() -> None:
    """Their types are copies of NumPy's, by which they were refused."""
    source = pickle.loads(pickle.dumps(memory()))
    assert source.dtype is not np.dtype(np.int32)
    (output,) = called(on_arrays(native([adding(1, COUNT)])), source)
    np.testing.assert_array_equal(output, source + 1)


@pytest.mark.usefixtures("limit_ns")
def test_a_requirement_that_does_not_hold() -> None:
    model = native([adding(0, COUNT), requiring(COUNT), adding(5, COUNT)])
    function, source = on_arrays(model), memory()
    assert function(source) is not None
    source[0] = -1
    assert function(source) is None
    source[0] = 2
    assert called(function, source)[0][0] == 7


@pytest.mark.usefixtures("limit_ns")
def test_a_function_owns_what_it_uses() -> None:
    model, source, target = native([adding(1, COUNT)]), memory(), memory()
    function = on_arrays(model)
    again = model.short_call(bound(model, source, target), (source, target))
    owners = [weakref.ref(each) for each in (model, source.base, target.base)]
    del model, source, target
    (output,) = called(function, memory())
    assert (output == 1).all()
    if again is not None:
        assert again()
    del function, again
    assert not any(owner() is not None for owner in owners)


def address(array: Array) -> int:
    return int(array.ctypes.data)


@pytest.mark.usefixtures("limit_ns")
def test_memory_of_large_outputs_is_used_again_once_nothing_else_uses_it() -> None:
    function, source = on_arrays(native([adding(1, MANY)])), memory(0, MANY)
    holders: tuple[Callable[[Array], Any], ...] = (
        lambda output: output,
        lambda output: output[5:7],
        lambda output: output.base,
        lambda output: output.data,
        lambda output: output.reshape(2, -1).T,
    )
    for hold in holders:
        held = []
        for _ in range(4):
            source += 1
            (output,) = called(function, source)
            assert (output == source + 1).all()
            held.append((hold(output), np.array(hold(output))))
            del output
        assert all(np.array_equal(np.asarray(each), copy) for each, copy in held)
    seen = [address(called(function, source)[0]) for _ in range(4)]
    assert len(set(seen)) == 1
    # A result is often kept until the next one is there.
    kept, alternating = source, []
    for _ in range(8):
        (kept,) = called(function, source)
        alternating.append(address(kept))
        assert (kept == source + 1).all()
    assert len(set(alternating)) == 2


def test_memory_of_outputs_ends_with_the_function() -> None:
    function, source = on_arrays(native([adding(1, MANY)])), memory(0, MANY)
    room = weakref.ref(called(function, source)[0].base)
    assert room() is not None
    del function
    assert room() is None


def test_much_memory_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_call, "MAX_KEPT_BYTES", 4 * MANY - 1)
    function, source = on_arrays(native([adding(1, MANY)])), memory(0, MANY)
    room = weakref.ref(called(function, source)[0].base)
    assert room() is None


def test_memory_of_other_lengths_is_forgotten() -> None:
    ports = python_call.StepPorts(
        (), (python_call.StepPort(dtype=np.dtype(np.int8), shape=(5000,), size_bytes=5000, own=0, cells=()),)
    )
    ports.rooms[:] = [np.zeros(5063, np.uint8), np.zeros(5063, np.uint8)]
    ports.resize(0, (5000,), 5000)
    assert not any(each is None for each in ports.rooms)
    ports.resize(0, (6000,), 6000)
    assert ports.rooms == [None, None]


@pytest.mark.usefixtures("limit_ns")
def test_nothing_leaks() -> None:
    model = native([adding(1, COUNT), requiring(COUNT)])
    function, good, bad = on_arrays(model), memory(), memory()
    bad[:] = -5
    wrong = good.astype(np.int64)
    large = on_arrays(native([adding(1, MANY)]))
    much = memory(0, MANY)
    target = memory()
    again = model.short_call(bound(model, good, target), (good, target))

    def calls(count: int) -> None:
        for _ in range(count):
            function(good)
            function(bad)
            function(wrong)
            function()
            large(much)
            if again is not None:
                again()

    def own_references() -> list[int]:
        return [*map(sys.getrefcount, (good, bad, wrong, much))]

    def shared_counts() -> list[int]:
        # Threads of other tests in this process change these by a few hundred at any time.
        gc.collect()
        objects = (np.dtype(np.int32), np.dtype(np.uint8), np.ndarray)
        return [sys.getallocatedblocks(), *map(sys.getrefcount, objects)]

    calls(100)
    own, shared, count = own_references(), shared_counts(), 20_000
    calls(count)
    assert own_references() == own
    grown = [after - before for before, after in zip(shared, shared_counts(), strict=True)]
    assert max(map(abs, grown)) < count // 10, f"one a call would be {count}: {grown}"


def test_a_call_during_a_call() -> None:
    """Creating the list of outputs may start a garbage collection, which may run the same step."""
    function = on_arrays(native([adding(1, COUNT)]))
    found: list[Array] = []

    class Finalized:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            other = memory(4)
            other[:] = 1000
            found.extend(called(function, other))

    source, threshold = memory(4), gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for turn in range(200):
            Finalized()
            source[:] = turn
            (output,) = called(function, source)
            assert (output == turn + 1).all()
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(found) == 200
    assert all((each == 1001).all() for each in found)


@pytest.mark.usefixtures("limit_ns")
def test_threads_share_a_function() -> None:
    function = on_arrays(native([adding(1, COUNT), adding(2, COUNT)]))
    wrong: list[int] = []

    def work(number: int) -> None:
        source = memory(4 * number)
        source[:] = number
        for _ in range(300):
            (output,) = called(function, source)
            if not (output == number + 3).all():
                wrong.append(number)

    side_by_side([threading.Thread(target=work, args=(number,)) for number in range(8)])
    assert not wrong


@pytest.mark.forks
def test_steps_with_workers_in_a_forked_child() -> None:
    model = native([adding(number, 500, cost_ns=1e6) for number in range(10)], threads=3)
    function, source = on_arrays(model), memory(0, 500)

    def check() -> None:
        for _ in range(10):
            (output,) = called(function, source)
            assert (output == 45).all()

    check()
    in_child(check)
    check()


def test_another_interpreter_calls_by_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_call, "python_table", lambda: 0)
    monkeypatch.setattr(native_model, "python_table", lambda: 0)
    model = native([adding(1, COUNT), requiring(COUNT)])
    assert model.array_function(ArgumentBinding(model.executable, [None], [None]), None) is None
    source, target = memory(4), memory(8)
    model.run(bound(model, source, target))
    assert target[0] == 1
    source[:] = -5
    with pytest.raises(OpFailed):
        model.run(bound(model, source, target))
    source[:] = 6
    model.run(bound(model, source, target))
    assert target[0] == 7
    # Calls by ctypes release the GIL.
    assert model.short_call(bound(model, source, target), None) is None


def test_layouts_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "ARRAY_DATA",
        "_ARRAY_SHAPE",
        "_ARRAY_DTYPE",
        "_DTYPE_SCALAR",
        "_DTYPE_KIND",
        "OBJECT_TYPE",
        "STRING_LENGTH",
        "STRING_BYTES",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(python_call, name, getattr(python_call, name) + ctypes.sizeof(ctypes.c_void_p))
            assert not python_call._has_layouts()
    assert python_call._has_layouts()


_DAEMON = """
import threading, numpy as np, neurald as nd

builder = nd.ModelBuilder()
x, y = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (4,)) for _ in range(2))
builder.add_operation(nd.OperationType.TANH, [x], [y])
builder.identify_inputs_and_outputs([x], [y])
builder = nd.CompilationBuilder(builder.finish(), [nd.devices()[0]])
builder.set_caching(None)
compilation, values, ran = builder.finish(), np.ones(4, np.float32), threading.Event()

def work():
    while True:
        compilation.run(values)
        ran.set()

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
ran.wait()
"""


def test_daemon_threads_at_the_end_of_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _DAEMON],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
