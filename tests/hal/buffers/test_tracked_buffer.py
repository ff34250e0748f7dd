"""The tracked state of device memory."""

import threading

import pytest
from support.devices.buffers import KeptBuffer
from support.models.small import add_model
from support.sweeps import sweep

from neurald.hal.buffers.buffer_use import buffers_in_use
from neurald.hal.buffers.host_copies import copy_to_host, execute_on_host
from neurald.hal.buffers.tracked_buffer import Role, TrackedBuffer, described_operand
from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape, PrepareOptions
from neurald.hal.errors import BadData, BadState, OpFailed
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions, OperandType, value_size
from neurald.hal.registry import create_device

pytestmark = pytest.mark.quick

FLOAT = OperandType.TENSOR_FLOAT32
OWNER = object()
GRAPH = add_model((2, 3)).main
VALUE = bytes(range(24))


def managed(dimensions: Dimensions = (2, 3), *, on_host: bool = False) -> TrackedBuffer:
    roles = frozenset(
        Role(owner=OWNER, index=index, is_output=is_output)
        for index, is_output in ((0, False), (1, False), (0, True))
    )
    memory = HostMemory(bytearray(24)) if on_host else KeptBuffer()
    return TrackedBuffer(memory, Operand(type=FLOAT, dimensions=dimensions), roles)


def test_a_use_waits_for_the_end_of_an_execution_that_is_being_stopped() -> None:
    memory = HostMemory(bytearray(24))
    buffer = TrackedBuffer(memory, Operand(type=FLOAT, dimensions=(2, 3)), frozenset(), patience_s=30)
    for writing in (True, False):
        buffer.acquire(writing=True)
        timer = threading.Timer(0.05, lambda: buffer.release(writing=True))
        timer.start()
        buffer.acquire(writing=writing)
        timer.join()
        buffer.release(writing=writing)
    impatient = TrackedBuffer(memory, Operand(type=FLOAT, dimensions=(2, 3)), frozenset(), patience_s=0.01)
    impatient.acquire(writing=False)
    impatient.acquire(writing=False)
    with pytest.raises(BadState, match="in use"):
        impatient.acquire(writing=True)


def request(first: TrackedBuffer, output: TrackedBuffer) -> Request:
    host = HostMemory(bytearray(24))
    return Request(
        inputs=(Argument(pool=0), Argument(pool=1, length=24)),
        outputs=(Argument(pool=2),),
        pools=(first, host, output),
    )


def result(*dimensions: int, sufficient: bool = True) -> ExecutionResult:
    return ExecutionResult(output_shapes=(OutputShape(dimensions=dimensions, sufficient=sufficient),))


@sweep(("dimensions", "size"), [((2, 3), 24), ((), 4), ((2, 0), None), (None, None), ((0,), None)])
def test_sizes_of_values(dimensions: Dimensions, size: int | None) -> None:
    assert value_size(FLOAT, dimensions) == size
    assert value_size(OperandType.TENSOR_STRING, dimensions) is None


def test_uses_make_dimensions_more_specific() -> None:
    uses = [("a", Operand(type=FLOAT)), ("b", Operand(type=FLOAT, dimensions=(0, 3)))]
    uses[0] = ("a", Operand(type=FLOAT, dimensions=None))
    assert described_operand(uses, None).dimensions == (0, 3)
    assert described_operand(uses, (2, 0)).dimensions == (2, 3)
    assert described_operand(uses[:1], None).dimensions is None
    for wrong in ((2, 4), (3,), (2, 3, 1), (-1, 3), (1 << 31, 3)):
        with pytest.raises(BadData):
            described_operand(uses, wrong)
    with pytest.raises(BadData, match="at least one role"):
        described_operand([], (2, 3))
    with pytest.raises(BadData, match="scalar"):
        described_operand([("a", Operand(type=OperandType.INT32))], (1,))


def test_it_holds_a_value_once_it_was_written() -> None:
    buffer = managed()
    assert buffer.dimensions is None
    with pytest.raises(OpFailed):
        _ = buffer.value_bytes
    buffer.write(HostMemory(VALUE))
    assert buffer.dimensions == (2, 3)
    assert buffer.value_bytes == 24
    buffer.set_value(None)
    with pytest.raises(OpFailed):
        buffer.read(HostMemory(bytearray(24)))


def test_an_execution_writes_it() -> None:
    source, target = managed(), managed()
    source.write(HostMemory(VALUE))
    with buffers_in_use(OWNER, GRAPH, request(source, target)) as use:
        assert use.request.pools[::2] == (source.memory, target.memory)
        assert use.request.inputs[0] == Argument(pool=0, dimensions=(2, 3))
        assert use.request.outputs[0] == Argument(pool=2, dimensions=(2, 3))
        use.wrote(result(2, 3))
    assert target.dimensions == (2, 3)


def test_host_memory_is_given_to_devices_with_its_real_length() -> None:
    source, target = managed(on_host=True), managed(on_host=True)
    source.write(HostMemory(VALUE))
    with buffers_in_use(OWNER, GRAPH, request(source, target)) as use:
        assert use.request.inputs[0] == Argument(pool=0, length=24, dimensions=(2, 3))
        assert use.request.outputs[0] == Argument(pool=2, length=24, dimensions=(2, 3))


def test_what_does_not_count_as_written() -> None:
    source, target = managed(), managed()
    source.write(HostMemory(VALUE))
    target.write(HostMemory(VALUE))
    with buffers_in_use(OWNER, GRAPH, request(source, target)) as use:
        use.wrote(result(2, 3, sufficient=False))
    assert target.dimensions is None
    with (
        pytest.raises(OpFailed),
        buffers_in_use(OWNER, GRAPH, request(source, target)) as use,
    ):
        use.wrote(result(2, 4))
    assert target.dimensions is None
    assert source.dimensions == (2, 3)


def test_a_refused_use_changes_nothing() -> None:
    source, target = managed(), managed()
    target.write(HostMemory(VALUE))
    with pytest.raises(OpFailed), buffers_in_use(OWNER, GRAPH, request(source, target)):
        pass
    with pytest.raises(BadData), buffers_in_use(object(), GRAPH, request(target, source)):
        pass
    assert target.dimensions == (2, 3)
    source.write(HostMemory(VALUE))
    with buffers_in_use(OWNER, GRAPH, request(source, target)):
        pass


def test_what_is_written_is_used_by_nobody_else() -> None:
    source, target = managed(), managed()
    source.write(HostMemory(VALUE))
    other = managed()
    other.write(HostMemory(VALUE))
    with buffers_in_use(OWNER, GRAPH, request(source, target)) as use:
        for refused in (request(other, target), request(other, source)):
            with pytest.raises(BadState, match="in use"), buffers_in_use(OWNER, GRAPH, refused):
                pass
        for buffer in (target, source):
            with pytest.raises(BadState, match="in use"):
                buffer.write(HostMemory(VALUE))
        with pytest.raises(BadState, match="in use"):
            target.read(HostMemory(bytearray(24)))
        # What is only read may be read by many.
        source.read(HostMemory(bytearray(24)))
        with buffers_in_use(OWNER, GRAPH, request(source, managed())):
            pass
        use.wrote(result(2, 3))
    assert target.dimensions == (2, 3)
    for buffer in (target, source):
        buffer.write(HostMemory(VALUE))
        buffer.read(HostMemory(bytearray(24)))


# Brought to the host


def test_a_device_that_reaches_the_host_only() -> None:
    model = add_model((2, 3))
    prepared = create_device("cpu").prepare_model(model, PrepareOptions())
    source, target = KeptBuffer(), KeptBuffer()
    source.write(HostMemory(bytes(24)))
    on_device = Request(
        inputs=(Argument(pool=0), Argument(pool=1, length=24, offset=4)),
        outputs=(Argument(pool=2),),
        pools=(source, HostMemory(bytes(4) + VALUE), target),
    )
    answer = execute_on_host(prepared, model.main, on_device, ExecuteOptions())
    assert answer.output_shapes[0].dimensions == (2, 3)
    assert target.content == VALUE


def test_sizes_have_to_be_known() -> None:
    graph = add_model((0, 3)).main
    on_device = Request(
        inputs=(Argument(pool=0, dimensions=(2, 3)), Argument(pool=0, dimensions=(2, 3))),
        outputs=(Argument(pool=1),),
        pools=(KeptBuffer(), KeptBuffer()),
    )
    on_device.pools[0].write(HostMemory(VALUE))
    with pytest.raises(OpFailed, match="size is not known"):
        copy_to_host(graph, on_device)


def test_nothing_is_written_back_that_did_not_fit() -> None:
    target = KeptBuffer()
    on_device = Request(
        inputs=(Argument(pool=0, length=24), Argument(pool=0, length=24)),
        outputs=(Argument(pool=1),),
        pools=(HostMemory(VALUE), target),
    )
    here = copy_to_host(GRAPH, on_device)
    here.write_back(result(2, 3, sufficient=False))
    assert not target.content
