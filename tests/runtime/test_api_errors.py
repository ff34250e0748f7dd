"""Wrong arguments of every public call: only nd.Error leaves the API.

Each argument of each call is replaced by every value of a list. A call that fails must not change
anything: afterwards the correct call still works.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.small import add_model, compiled_add
from support.sweeps import sweep
from support.tflite.litert_files import sums

import neurald as nd
from neurald.hal.memory.pool import Memory


class RaisingArray:
    """An object whose methods for arrays raise an error, like those of a tensor on a GPU."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __array__(self, *given: Any, **named: Any) -> Any:
        raise self._error("no array")


class RaisingTensor(RaisingArray):
    """The same with DLPack's methods."""

    def __dlpack__(self, **named: Any) -> Any:
        raise self._error("no tensor")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class RaisingText:
    """An object whose representation raises an error."""

    def __repr__(self) -> str:
        raise KeyError("no text")


#: Values that are valid for hardly any argument.
ZOO: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7,
    2**31,
    2**63,
    2**70,
    -(2**70),
    0.5,
    float("nan"),
    float("inf"),
    -1e308,
    1j,
    "",
    "name",
    "a\0b",
    "\ud800",
    b"bytes",
    (),
    (1, 2, 3),
    (-1,),
    (0.5,),
    ("a",),
    (None,),
    (2**70,),
    [[1, 2], [3]],
    {},
    {"a": 1},
    object(),
    object,
    len,
    Path("a\0b"),
    Path("/nowhere/at/all"),
    np.float32(1.5),
    np.int8(-1),
    np.array(3),
    np.zeros((2, 3), np.float32),
    np.zeros((3, 2), np.float32),
    np.zeros((2, 3), np.float64),
    np.zeros((2, 6), np.float32)[:, ::2],
    np.zeros(0, np.float32),
    np.array([None, "a"], object),
    *(
        kind(error)
        for kind in (RaisingArray, RaisingTensor)
        for error in (KeyError, RuntimeError, MemoryError)
    ),
    RaisingText(),
    np.ma.masked_equal(np.zeros((2, 3), np.float32), 0),
    np.array(["a"]),
    nd.OperandType.TENSOR_FLOAT32,
    nd.OperationType.ADD,
    nd.Preference.LOW_POWER,
    nd.Partitioning(),
)


@dataclass(frozen=True)
class Call:
    """A call with valid arguments; `make` returns a fresh callable each time."""

    name: str
    make: Callable[[], Callable[..., Any]]
    arguments: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.name


def open_builder() -> nd.ModelBuilder:
    """Returns a builder with operands x, y, an activation of 0 and z, and no operation."""
    builder = nd.ModelBuilder()
    for _ in range(2):
        builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3))
    builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(2, 0)
    builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3))
    builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3))
    builder.add_operand(nd.OperandType.MODEL)
    return builder


def execution() -> nd.Execution:
    return nd.Execution(compiled_add())


def bound() -> nd.Execution:
    made = nd.Execution(compiled_add(), reusable=True)
    made.set_input(0, np.zeros((2, 3), np.float32))
    made.set_input(1, np.zeros((2, 3), np.float32))
    made.set_output(0, np.zeros((2, 3), np.float32))
    return made


def calls() -> Iterator[Call]:
    ones = np.ones((2, 3), np.float32)
    memory = Memory.allocate(24)
    model, compilation = add_model(), compiled_add()
    yield Call(
        "add_operand",
        lambda: open_builder().add_operand,
        (nd.OperandType.TENSOR_QUANT8_ASYMM, (2, 3)),
        (("scale", 0.5), ("zero_point", 3), ("name", "x")),
    )
    yield Call(
        "add_operand per channel",
        lambda: open_builder().add_operand,
        (nd.OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 3)),
        (("channel_quant", (0, (0.5, 0.25))),),
    )
    yield Call("set_operand_value", lambda: open_builder().set_operand_value, (3, ones))
    yield Call(
        "set_operand_value_from_memory",
        lambda: open_builder().set_operand_value_from_memory,
        (3, memory, 0, 24),
    )
    yield Call(
        "set_operand_value_from_model", lambda: open_builder().set_operand_value_from_model, (5, model)
    )
    yield Call("add_operation", lambda: open_builder().add_operation, (nd.OperationType.ADD, (0, 1, 2), (4,)))
    yield Call(
        "identify_inputs_and_outputs",
        lambda: open_builder().identify_inputs_and_outputs,
        ((0, 1), (4,)),
    )
    yield Call("relax", lambda: open_builder().relax_computation_float32_to_float16, (True,))

    def builder() -> nd.CompilationBuilder:
        return nd.CompilationBuilder(add_model())

    yield Call("CompilationBuilder", lambda: nd.CompilationBuilder, (model, nd.devices()[:1], 1))
    yield Call("set_preference", lambda: builder().set_preference, (nd.Preference.LOW_POWER,))
    yield Call("set_priority", lambda: builder().set_priority, (nd.Priority.HIGH,))
    yield Call("set_timeout", lambda: builder().set_timeout, (1.0,))
    yield Call("set_caching", lambda: builder().set_caching, ("/tmp/x", bytes(32)))
    yield Call("set_partitioning", lambda: builder().set_partitioning, ("android",))
    yield Call("set_startup", lambda: builder().set_startup, (nd.Startup.INSTANT,))
    yield Call("set_verification", lambda: builder().set_verification, (0.5,))
    yield Call("set_progress_callback", lambda: builder().set_progress_callback, (print,))
    yield Call("share_state", lambda: builder().share_state, (compilation,))
    yield Call("Partitioning", lambda: nd.Partitioning, (), (("policy", "android"), ("mode", 1)))
    yield Call(
        "Partitioning limits",
        lambda: nd.Partitioning,
        (),
        (("max_partitions", 3), ("min_operations", 1), ("overrides", ())),
    )
    yield Call("pin", lambda: nd.pin, ("cpu", (0,)))
    yield Call("forbid", lambda: nd.forbid, ("cpu",), (("operation_type", nd.OperationType.ADD),))
    yield Call("prefer", lambda: nd.prefer, ("cpu",), (("output", "z"),))
    yield Call("Execution", lambda: nd.Execution, (compilation,), (("reusable", True),))
    yield Call("set_input", lambda: execution().set_input, (0, ones, (2, 3)))
    yield Call("set_output", lambda: execution().set_output, (0, np.zeros((2, 3), np.float32), (2, 3)))
    yield Call("set_input_from_memory", lambda: execution().set_input_from_memory, (0, memory, 0, 24, (2, 3)))
    yield Call(
        "set_output_from_memory", lambda: execution().set_output_from_memory, (0, memory, 0, 24, (2, 3))
    )
    yield Call("set_execution_timeout", lambda: execution().set_timeout, (1.0,))
    yield Call("set_loop_timeout", lambda: execution().set_loop_timeout, (1.0,))
    yield Call("set_measure_timing", lambda: execution().set_measure_timing, (True,))
    yield Call("set_reusable", lambda: execution().set_reusable, (True,))
    yield Call("padding", lambda: execution().enable_input_and_output_padding, (True,))
    yield Call("compute", lambda: bound().compute, (), (("burst", None),))
    yield Call("start_compute_with_dependencies", lambda: bound().start_compute_with_dependencies, ((), 1.0))

    def computed() -> nd.Execution:
        made = bound()
        made.set_measure_timing()
        made.compute()
        return made

    yield Call("duration", lambda: computed().duration, (nd.Duration.IN_DRIVER,))
    yield Call("output_dimensions", lambda: computed().output_dimensions, (0,))
    yield Call("wait", lambda: bound().start_compute().wait)
    yield Call("run", lambda: compilation.run, (ones, ones))
    yield Call("alignment", lambda: compilation.preferred_memory_alignment_for_input, (0,))
    yield Call("padding of outputs", lambda: compilation.preferred_memory_padding_for_output, (0,))
    yield Call("Burst", lambda: nd.Burst, (compilation,))
    yield Call("add_input_role", lambda: nd.MemoryDesc().add_input_role, (compilation, 0, 0.5))
    yield Call("add_output_role", lambda: nd.MemoryDesc().add_output_role, (compilation, 0, 0.5))
    yield Call("set_dimensions", lambda: nd.MemoryDesc().set_dimensions, ((2, 3),))
    yield Call("allocate", lambda: Memory.allocate, (24,))
    yield Call("from_fd", lambda: Memory.from_fd, (-1, 24, 0))
    yield Call("copy", lambda: Memory.copy, (Memory.allocate(8), Memory.allocate(8)))
    yield Call(
        "nd.compile",
        lambda: nd.compile,
        (model, "cpu", 1),
        (("startup", nd.Startup.OPTIMIZED), ("convert", False), ("receipts", False)),
    )
    yield Call(
        "nd.compile of a file",
        lambda: nd.compile,
        (sums().build(),),
        (("signature", None), ("shapes", {}), ("keep", ())),
    )
    yield Call("a function", lambda: nd.compile(model), (ones, ones))
    yield Call("a converting function", lambda: nd.compile(model, convert=True), (ones, ones))
    yield Call("a stream", lambda: lambda *given: list(nd.compile(model).stream(*given)), ([(ones, ones)], 2))
    yield Call(
        "a stream of a compilation",
        lambda: lambda *given: list(compilation.stream(*given)),
        ([(ones, ones)], 2),
    )
    yield Call("inputs of a stream", lambda: lambda given: list(compilation.stream([given])), ((ones, ones),))
    yield Call("explain", lambda: compilation.explain, (), (("pin", None), ("kernels", False)))
    yield Call("load_tflite", lambda: nd.load_tflite, ("/nowhere.tflite", None))
    yield Call(
        "load_tflite of bytes", lambda: nd.load_tflite, (sums().build(), None), (("shapes", {"x": (2, 3)}),)
    )
    yield Call(
        "a shape", lambda: lambda shape: nd.load_tflite(sums().build(), shapes={"x": shape}), ((2, 3),)
    )
    yield Call("connect", lambda: nd.connect, ("unix:///nowhere.sock",))
    yield Call("open_device", lambda: nd.open_device, ("cpu",))
    yield Call("supported_operations", lambda: nd.supported_operations, (model, nd.devices()[:1]))
    yield Call("warm", lambda: nd.warm, (model, nd.devices()[:1], 1))
    yield Call("trace", lambda: nd.trace, ("trace.json",), (("trace_id", None), ("exporter", None)))
    yield Call("load_plan", lambda: nd.load_plan, ("/nowhere.plan",))
    yield Call("save_plan", lambda: nd.save_plan, ("/nowhere.tflite", "/nowhere/at/all.plan"))
    yield Call("connect_service", lambda: nd.connect_service, ("/nowhere.sock",))
    yield Call("devices", lambda: nd.devices, (), (("timeout", 1.0),))
    yield Call("wait_until_optimized", lambda: compilation.wait_until_optimized, (1.0,))
    yield Call("from_fence_fd", lambda: nd.Event.from_fence_fd, (-1,))


#: Calls whose arguments have the right types, but name nothing that exists.
_ALWAYS_FAIL = (
    "from_fd",
    "from_fence_fd",
    "load_tflite",
    "load_plan",
    "save_plan",
    "connect",
    "connect_service",
)


def wrong_uses(call: Call, values: tuple[Any, ...] = ZOO) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for position in range(len(call.arguments)):
        for value in values:
            yield (
                (*call.arguments[:position], value, *call.arguments[position + 1 :]),
                dict(call.named),
            )
    for name, _ in call.named:
        for value in values:
            yield call.arguments, {**dict(call.named), name: value}


@sweep("call", list(calls()), ids=str)
def test_wrong_arguments(call: Call) -> None:
    wrong = []
    for arguments, named in wrong_uses(call):
        function = call.make()
        try:
            function(*arguments, **named)
        except nd.Error:
            pass
        except Exception as error:
            wrong.append(f"{call}{arguments} {named}: {type(error).__name__}: {error}")
            continue
        else:
            continue
        try:
            function(*call.arguments, **dict(call.named))
        except nd.Error as error:
            if call.name not in _ALWAYS_FAIL:
                wrong.append(f"{call}{arguments} {named} changed something: {error}")
    assert not wrong, "\n".join(wrong)


@sweep("call", list(calls()), ids=str)
def test_an_object_has_a_wrong_type_for_every_argument(call: Call) -> None:
    given = object()
    for arguments, named in wrong_uses(call, (given,)):
        with pytest.raises(nd.WrongType) as raised:
            call.make()(*arguments, **named)
        assert repr(given) in str(raised.value) or "object cannot be converted" in str(raised.value)
