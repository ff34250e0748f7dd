"""Strings in the client library: all kinds of arrays, and buffers that grow, in this process and in
a daemon.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import Device, ExecutionResult, OutputShape
from neurald.hal.errors import BadData, OpFailed, OutputInsufficientSize
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.strings import decode_strings, encode_strings
from neurald.hal.model.types import OperandType
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.execution.binding.string_output import StringOutput
from neurald.runtime.execution.execution import Execution
from neurald.runtime.execution.program.step_runner import check_result
from neurald.runtime.model_builder import ModelBuilder

INT32, STRING = OperandType.TENSOR_INT32, OperandType.TENSOR_STRING
WORDS = np.array([[b"ab", b"\xff\0"], [b"", b"x" * 1000]], object)


@pytest.fixture(scope="module", params=["here", "unix", "tcp"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == "here":
        (found,) = (device for device in nd.devices() if device.name == "cpu")
        yield found
        return
    listen = None if request.param == "unix" else "127.0.0.1:0"
    with running_daemon(driver="cpu", listen=listen) as address:
        yield nd.connect(address)


def tile(dimensions: tuple[int, ...] = (2, 2), constant: Any = None) -> Model:
    """Builds a model that repeats strings as often as its second input says."""
    builder = ModelBuilder()
    source = builder.add_operand(STRING, dimensions)
    multiples = builder.add_operand(INT32, (len(dimensions),))
    result = builder.add_operand(STRING, (0,) * len(dimensions))
    builder.add_operation(OperationType.TFLITE_TILE, (source, multiples), (result,))
    if constant is None:
        builder.identify_inputs_and_outputs((source, multiples), (result,))
    else:
        builder.set_operand_value(source, constant)
        builder.identify_inputs_and_outputs((multiples,), (result,))
    return builder.finish()


def compiled(model: Model, device: Device) -> Compilation:
    return CompilationBuilder(model, [device]).finish()


@pytest.mark.parametrize("times", [(1, 1), (3, 1), (0, 2), (5, 40)])
@pytest.mark.sampled(4)
def test_strings_go_in_and_out(device: Device, times: tuple[int, int]) -> None:
    (result,) = compiled(tile(), device).run(WORDS, np.array(times, np.int32))
    expected = np.tile(WORDS, times)
    assert result.dtype == object
    assert result.shape == expected.shape
    assert result.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "given",
    [
        [["a", b"\xc3\xa9"], ["", "\u00e9"]],
        np.array([["a", "\u00e9"], ["", "\u00e9"]]),
        np.array([[b"a", b"\xc3\xa9"], [b"", b"\xc3\xa9"]]),
        np.array([["a", "\u00e9"], ["", "\u00e9"]], object).T.copy().T,
    ],
    ids=["list", "text", "bytes", "objects"],
)
def test_strings_of_all_kinds_are_taken(device: Device, given: Any) -> None:
    (result,) = compiled(tile(), device).run(given, np.array([1, 1], np.int32))
    assert result.tolist() == [[b"a", b"\xc3\xa9"], [b"", b"\xc3\xa9"]]


def test_strings_in_constants(device: Device) -> None:
    one = np.array([1, 1], np.int32)
    assert compiled(tile(constant=WORDS), device).run(one)[0].tolist() == WORDS.tolist()
    small = tile((2,), constant=["a", b"\0"])
    assert compiled(small, device).run(one[:1])[0].tolist() == [b"a", b"\0"]


def test_what_are_no_strings_is_refused() -> None:
    compilation = CompilationBuilder(tile()).finish()
    for given in (np.zeros((2, 2)), [["a", "b"], ["c", 1]], [["a", None]] * 2):
        with pytest.raises(BadData, match="input 0"):
            compilation.run(given, np.array([1, 1], np.int32))
    with pytest.raises(BadData, match=r"shape \[1\]"):
        compilation.run(["a"], np.array([1, 1], np.int32))
    for constant, message in ((["a"], "1 strings"), ([1, 2], "is int"), (np.arange(2), "int64")):
        with pytest.raises(BadData, match=message):
            tile((2,), constant=constant)


def execution(
    compilation: Compilation, source: Any, multiples: Any, output: Any, **options: Any
) -> Execution:
    made = Execution(compilation, **options)
    made.set_input(0, source)
    made.set_input(1, np.array(multiples, np.int32))
    made.set_output(0, output)
    return made


def test_outputs_are_filled_from_their_start(device: Device) -> None:
    compilation = compiled(tile((2,)), device)
    output = np.full((3, 2), b"old", object)
    run = execution(compilation, WORDS[1], [2], output, reusable=True)
    for _ in range(2):
        run.compute()
        assert run.output_dimensions(0) == (4,)
        assert output.tolist() == [[b"", b"x" * 1000], [b"", b"x" * 1000], [b"old", b"old"]]


def test_too_few_elements_are_reported(device: Device) -> None:
    compilation = compiled(tile((2,)), device)
    for source in (WORDS[0], WORDS[1]):
        output = np.full(3, b"old", object)
        run = execution(compilation, source, [2], output)
        with pytest.raises(OutputInsufficientSize) as caught:
            run.compute()
        assert caught.value.dimensions == ((4,),)
        assert output.tolist() == [b"old"] * 3


def test_outputs_that_cannot_be_are_refused() -> None:
    compilation = CompilationBuilder(tile((2,))).finish()
    made = Execution(compilation)
    fixed = np.empty(4, object)
    fixed.flags.writeable = False
    for output, message in (
        (np.zeros(4, np.uint8), "an array of uint8; TENSOR_STRING needs an array of object"),
        (np.empty((4, 4), object)[:, 0], "not C-contiguous"),
        (fixed, "read-only"),
    ):
        with pytest.raises(BadData, match=message):
            made.set_output(0, output)


def test_buffers_in_memories_are_as_they_are_stored(device: Device) -> None:
    compilation = compiled(tile((2,)), device)
    stored, output = encode_strings(WORDS[0]), np.zeros(100, np.uint8)
    made = Execution(compilation)
    made.set_input_from_memory(0, HostMemory(stored), 0, stored.nbytes)
    made.set_input(1, np.array([2], np.int32))
    made.set_output_from_memory(0, HostMemory(output), 10, 90)
    made.compute()
    assert decode_strings(memoryview(output[10:].tobytes()), (4,)).tolist() == np.tile(WORDS[0], 2).tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.array([2, 16, 16, 17], "<i4"), "not in order or exceed"),
        (np.array([1, 16, 16, 16], "<i4"), "has 1 strings"),
        (np.array([2, 16, 17, 16], "<i4"), "not in order or exceed"),
    ],
)
def test_a_damaged_buffer_is_refused(device: Device, content: Any, message: str) -> None:
    made = Execution(compiled(tile((2,)), device))
    made.set_input_from_memory(0, HostMemory(content), 0, content.nbytes)
    made.set_input(1, np.array([2], np.int32))
    made.set_output(0, np.empty(4, object))
    with pytest.raises(BadData, match=message):
        made.compute()


def test_a_buffer_that_is_too_short_is_refused_at_once() -> None:
    made = Execution(CompilationBuilder(tile((2,))).finish())
    with pytest.raises(BadData, match="12 bytes; strings of shape \\[2\\] have at least 16"):
        made.set_input_from_memory(0, HostMemory(np.zeros(3, "<i4")), 0, 12)


@sweep(
    "shape",
    [
        OutputShape(dimensions=(2,), sufficient=False),
        OutputShape(dimensions=(2,), sufficient=False, length=64),
        OutputShape(dimensions=(2,), sufficient=False, length=1 << 40),
        OutputShape(dimensions=(2,)),
        OutputShape(dimensions=(2,), length=65),
    ],
    ids=range(5),
)
def test_a_device_that_answers_nonsense(shape: OutputShape) -> None:
    memory = HostMemory(np.zeros(64, np.uint8))
    request = Request(inputs=(), outputs=(Argument(pool=0, length=64),), pools=(memory,))
    with pytest.raises(BadData, match="bytes"):
        check_result(
            ExecutionResult(output_shapes=(shape,)), [Operand(type=STRING, dimensions=(2,))], request
        )


def test_a_device_that_writes_no_strings() -> None:
    array = np.full(2, b"old", object)
    output = StringOutput(array)
    with pytest.raises(OpFailed, match="the device wrote invalid strings: a string buffer has 0 strings"):
        output.fill((2,))
    assert array.tolist() == [b"old"] * 2
