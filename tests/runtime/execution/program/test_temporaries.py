"""Values between steps whose size is unknown, and outputs of such plans."""

import itertools
import threading

import numpy as np
import pytest
from support.devices.recording import RecordingDevice
from support.errors import error_code
from support.models.pads import amounts, pads
from support.models.plans import all_but, assert_same_as_on_cpu, compiled, cpu, executed, only
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import ExecutionResult, OutputShape
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Request
from neurald.hal.records import replace

Op = nd.OperationType
Code = nd.ResultCode
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def split_pads(model: nd.Model) -> nd.Compilation:
    return compiled(model, only("padder", Op.PAD), all_but("other", Op.PAD))


def test_temporaries_of_unknown_size() -> None:
    for relu in (False, True):
        model = pads(relu=relu)
        compilation = split_pads(model)
        for padding in (amounts(0, 0, 0, 0), amounts(1, 2, 3, 4), amounts(30, 0, 0, 7), amounts(0, 1, 0, 0)):
            assert_same_as_on_cpu(model, compilation, VALUE, padding, padding)


def test_the_producer_runs_again_with_as_much_as_it_says() -> None:
    padder = RecordingDevice("padder", [Op.PAD])
    compilation = compiled(pads(), padder, all_but("other", Op.PAD))
    inputs = [VALUE, amounts(0, 50, 0, 50), amounts(0, 50, 0, 50)]
    executed(compilation, inputs, [np.zeros((52, 53), np.float32)])
    first, second = (request.outputs[0].length for request in padder.requests[:2])
    assert first < 52 * 53 * 4 <= second
    padder.requests.clear()
    executed(compilation, inputs, [np.zeros((52, 53), np.float32)])
    assert len(padder.requests) == 1


def test_without_a_shape_the_room_is_doubled() -> None:
    def silent(request: Request, result: ExecutionResult) -> ExecutionResult:
        if result.is_sufficient:
            return result
        return ExecutionResult(
            output_shapes=tuple(replace(shape, dimensions=None) for shape in result.output_shapes)
        )

    padder = RecordingDevice("padder", [Op.PAD], silent)
    compilation = compiled(pads(), padder, all_but("other", Op.PAD))
    result = np.zeros((52, 53), np.float32)
    executed(compilation, [VALUE, amounts(0, 50, 0, 50), amounts(0, 50, 0, 50)], [result])
    np.testing.assert_array_equal(result, np.pad(VALUE, ((0, 50), (0, 50))) * 2)
    lengths = [request.outputs[0].length for request in padder.requests]
    assert len(lengths) > 3
    assert all(after == 2 * before for before, after in itertools.pairwise(lengths))


@sweep("shape", [(2, 3), (1, 1)])
def test_a_device_that_is_never_content_is_stopped(shape: tuple[int, ...]) -> None:
    def greedy(request: Request, result: ExecutionResult) -> ExecutionResult:
        return ExecutionResult(
            output_shapes=tuple(OutputShape(dimensions=shape, sufficient=False) for _ in request.outputs)
        )

    padder = RecordingDevice("padder", [Op.PAD], greedy)
    compilation = compiled(pads(), padder, all_but("other", Op.PAD))
    zero = amounts(0, 0, 0, 0)
    assert error_code(compilation.run, VALUE, zero, zero) is Code.OP_FAILED
    assert len(padder.requests) <= 3


def test_a_device_that_always_wants_twice_as_much_is_stopped() -> None:
    def greedy(request: Request, result: ExecutionResult) -> ExecutionResult:
        if request.outputs[0].length > 1 << 20:
            return result
        return ExecutionResult(
            output_shapes=tuple(OutputShape(dimensions=None, sufficient=False) for _ in request.outputs)
        )

    padder = RecordingDevice("padder", [Op.PAD], greedy)
    compilation = compiled(pads(), padder, all_but("other", Op.PAD))
    zero = amounts(0, 0, 0, 0)
    assert compilation.run(VALUE, zero, zero)[0].tobytes() == (VALUE * 2).tobytes()
    assert len(padder.requests) < 30


@sweep("output", [(), (0, 0), (3, 0), (3, 5)])
def test_outputs_of_compound_plans(output: tuple[int, ...]) -> None:
    compilation = split_pads(pads(output))
    inputs = [VALUE, amounts(1, 0, 1, 1), amounts(0, 1, 2, 0)]
    (expected,) = compiled(pads(output), cpu()).run(*inputs)
    assert expected.shape == (3, 5)
    result = np.zeros(15, np.float32) if 0 in output or not output else np.zeros(output, np.float32)
    if result.ndim == 1:
        result = result.reshape(3, 5)
    assert executed(compilation, inputs, [result]).output_dimensions(0) == (3, 5)
    np.testing.assert_array_equal(result, expected)
    if output == (3, 5):
        return
    small = nd.Execution(compilation)
    for position, array in enumerate(inputs):
        small.set_input(position, array)
    memory = HostMemory(np.zeros(14, np.float32))
    small.set_output_from_memory(0, memory, 0, 56)
    with pytest.raises(nd.OutputInsufficientSize) as caught:
        small.compute()
    assert caught.value.dimensions == ((3, 5),)
    assert small.output_dimensions(0) == (3, 5)


def test_executions_at_the_same_time_do_not_meet() -> None:
    compilation = split_pads(pads())
    wrong: list[int] = []

    def work(number: int) -> None:
        value = VALUE * number
        padding = amounts(number, 0, 0, number)
        for _ in range(20):
            (result,) = compilation.run(value, padding, padding)
            expected = np.pad(value, ((number, 0), (0, number))) * 2
            if result.tobytes() != expected.tobytes():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
