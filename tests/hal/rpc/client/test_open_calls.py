"""Functions that run a prepared model of a daemon on arrays of any shapes."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.daemon.traffic import Traffic
from support.models.addition import FLOAT, AddingDevice, addition

from neurald.hal.device import ExecutionResult, OutputShape, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.rpc.client import open_calls
from neurald.hal.rpc.client.device import RemoteDevice
from neurald.hal.rpc.client.open_calls import RemoteOpenFunction, create_open_function
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.client.rings.ring import RemoteModel
from neurald.hal.rpc.client.rings.ring_peer import RingPeer
from neurald.hal.rpc.transport.ring_packet import ONGOING_REQUEST, REQUEST

_OPEN = Operand(type=FLOAT, dimensions=(0, 2), lifetime=Lifetime.SUBGRAPH_INPUT)
_FIXED = Operand(type=FLOAT, dimensions=(3, 2), lifetime=Lifetime.SUBGRAPH_INPUT)


@pytest.fixture
def prepared(remote: RemoteDevice) -> RemotePreparedModel:
    return remote.prepare_model(addition(np.ones((1, 2)), dynamic=True), PrepareOptions())


def function_of(prepared: RemotePreparedModel) -> RemoteOpenFunction:
    function = prepared.create_open_function()
    assert function is not None
    return function


def run(function: Any, rows: int, value: float = 1) -> Any:
    outputs = function(np.full((rows, 2), value, np.float32))
    assert outputs is not None
    (output,) = outputs
    assert output.dtype == np.float32
    assert output.shape == (rows, 2)
    assert np.all(output == value + 1)
    return output


def test_any_sizes(
    prepared: RemotePreparedModel, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch, traffic: Traffic
) -> None:
    monkeypatch.setattr(open_calls, "_MAX_REQUESTS", 4)
    function, messages = function_of(prepared), traffic.messages_sent
    sizes = (3, 1, 5000, 3, 7, 100_000, 4, 5, 6, 2, 1, 7, 100_000)
    kept = [run(function, rows, value) for value, rows in enumerate(sizes)]
    for value, output in enumerate(kept):
        assert np.all(output == value + 1)
    assert traffic.messages_sent == messages


def test_a_new_size_takes_one_round_trip(
    prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_of(prepared)
    run(function, 1000)
    monkeypatch.setattr(RingPeer, "ask", lambda *_: pytest.fail("an answer is waited for"))
    for rows in range(1, 1000, 100):
        run(function, rows)


def test_an_older_daemon_gets_requests_that_it_knows(
    prepared: RemotePreparedModel, remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch, traffic: Traffic
) -> None:
    function, messages = function_of(prepared), traffic.messages_sent
    prepared.rings.takes_ongoing_requests = False
    kinds, tell = [], RingPeer.tell

    def noted(peer: RingPeer, packet: bytes, *more: Any) -> None:
        kinds.append(packet[0])
        tell(peer, packet, *more)

    monkeypatch.setattr(RingPeer, "tell", noted)
    for rows in (3, 1, 5000):
        run(function, rows)
    assert REQUEST in kinds
    assert ONGOING_REQUEST not in kinds
    assert traffic.messages_sent == messages


def test_memory_is_kept(prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    function = function_of(prepared)
    run(function, 1000)
    monkeypatch.setattr(SharedMemory, "working", lambda *_: pytest.fail("memory for a smaller size"))
    for rows in range(1, 1000, 100):
        run(function, rows)


def test_a_function_for_one_size_of_an_open_model(prepared: RemotePreparedModel) -> None:
    function = prepared.create_array_function([(3, 2)], ())
    assert function is not None
    run(function, 3)
    assert function(np.ones((4, 2), np.float32)) is None
    assert function("text") is None
    assert prepared.create_array_function([(3, 2)], [SharedMemory.create(24)]) is None


def test_threads_call_at_the_same_time(prepared: RemotePreparedModel) -> None:
    function = function_of(prepared)

    def work(seed: int) -> None:
        for value in range(30):
            run(function, 1 + (7 * seed + value) % 40, 100 * seed + value)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@pytest.mark.parametrize(
    "arrays",
    [
        (),
        (np.ones((3, 2), np.float32),) * 2,
        (None,),
        ("text",),
        (np.ones((3, 2)),),
        (np.ones((3, 3), np.float32),),
        (np.ones(2, np.float32),),
        (np.ones((0, 2), np.float32),),
        (np.ones((5_000_000, 2), np.float32),),
    ],
)
def test_other_arguments_are_left_to_the_caller(
    prepared: RemotePreparedModel, arrays: tuple[Any, ...]
) -> None:
    function = function_of(prepared)
    assert function(*arrays) is None
    run(function, 3)


def test_failures_are_left_to_the_caller(
    prepared: RemotePreparedModel, remote: RemoteDevice, device: AddingDevice
) -> None:
    function = function_of(prepared)
    run(function, 3)

    def fail(*_: Any) -> None:
        raise OpFailed("no")

    device.on_execute = fail
    assert function(np.zeros((3, 2), np.float32)) is None
    device.on_execute = lambda *_: None
    run(function, 2)
    remote.close()
    assert function(np.zeros((3, 2), np.float32)) is None


class HostileRings:
    """Replies with given shapes of the outputs."""

    def __init__(self, shapes: list[OutputShape]) -> None:
        self.shapes = shapes
        self.calls = 0

    def execute(self, *_: object, is_ongoing: bool) -> ExecutionResult:
        assert is_ongoing
        self.calls += 1
        return ExecutionResult(output_shapes=tuple(self.shapes))


@pytest.mark.parametrize("sufficient", [True, False])
@pytest.mark.parametrize(
    "dimensions",
    [
        None,
        [],
        [(3, 2), (3, 2)],
        [(3,)],
        [(3, 2, 1)],
        [(3, 3)],
        [(3, 0)],
        [(-3, 2)],
        [(1 << 31, 2)],
        [(1 << 100, 2)],
        [(600, 2)],
        [None],
    ],
)
def test_shapes_of_the_reply_are_checked(dimensions: list[Any] | None, sufficient: bool) -> None:
    shapes = [(1, 2)] if dimensions is None else dimensions
    rings = HostileRings([OutputShape(dimensions=each, sufficient=sufficient) for each in shapes])

    class Prepared:
        model = RemoteModel(handle=1, types=(FLOAT,))

    Prepared.rings = rings  # type: ignore[attr-defined]
    function = create_open_function(Prepared(), [_OPEN], [_OPEN])  # type: ignore[arg-type]
    assert function is not None
    outputs = function(np.ones((1, 2), np.float32))
    if sufficient and dimensions is None:
        assert outputs is not None
        assert outputs[0].shape == (1, 2)
    else:
        assert outputs is None
    assert rings.calls <= 3


@pytest.mark.parametrize("sufficient", [True, False])
def test_outputs_without_elements(sufficient: bool) -> None:
    """A length of 0 is that of a result that fits, and unknown for one that does not."""
    rings = HostileRings([OutputShape(dimensions=(0, 2), sufficient=sufficient)])

    class Prepared:
        model = RemoteModel(handle=1, types=(FLOAT,))

    Prepared.rings = rings  # type: ignore[attr-defined]
    function = create_open_function(Prepared(), [_OPEN], [_OPEN])  # type: ignore[arg-type]
    assert function is not None
    outputs = function(np.ones((1, 2), np.float32))
    assert (outputs is not None) == sufficient
    if outputs is not None:
        assert outputs[0].shape == (0, 2)
        assert outputs[0].dtype == np.float32
    assert rings.calls == 1


def test_models_without_a_function() -> None:
    class Prepared:
        model = RemoteModel(handle=1, types=(FLOAT,))
        rings = HostileRings([])

    strings = Operand(type=OperandType.TENSOR_STRING, dimensions=(0,), lifetime=Lifetime.SUBGRAPH_INPUT)
    large = Operand(type=FLOAT, dimensions=(1 << 24, 2), lifetime=Lifetime.SUBGRAPH_INPUT)
    for inputs in ([_FIXED], [_OPEN, strings], [_OPEN, large]):
        assert create_open_function(Prepared(), inputs, [_FIXED]) is None  # type: ignore[arg-type]
    assert create_open_function(Prepared(), [_OPEN], [_FIXED]) is not None  # type: ignore[arg-type]
