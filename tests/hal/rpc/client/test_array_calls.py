"""Functions that run a prepared model of a daemon on arrays."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.traffic import Traffic
from support.models.addition import AddingDevice, addition
from support.waiting import wait_until

from neurald.hal.device import PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.memory.pool import HostMemory
from neurald.hal.rpc.client import array_calls
from neurald.hal.rpc.client.connection import Connection
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.server.server import DeviceServer

NOW = PrepareOptions()
#: Enough elements for outputs that are not copied.
MANY = 40_000


def prepared_with(remote: RemoteDevice, elements: int) -> RemotePreparedModel:
    return remote.prepare_model(addition(np.ones(elements)), NOW)


def function_of(prepared: RemotePreparedModel, *shape: int) -> ArrayFunction:
    function = prepared.create_array_function([shape], ())
    assert function is not None
    return function


def run(function: ArrayFunction, value: float, elements: int) -> Any:
    outputs = function(np.full(elements, value, np.float32))
    assert outputs is not None
    (output,) = outputs
    assert output.dtype == np.float32
    assert output.shape == (elements,)
    assert np.all(output == value + 1)
    return output


@pytest.mark.parametrize("elements", [1, 3, MANY])
def test_outputs_are_new_arrays(remote: RemoteDevice, elements: int, traffic: Traffic) -> None:
    prepared = prepared_with(remote, elements)
    function = function_of(prepared, elements)
    messages = traffic.messages_sent
    kept = [run(function, value, elements) for value in range(12)]
    for value, output in enumerate(kept):
        assert np.all(output == value + 1)
        output[:] = -1  # it belongs to the caller
    assert traffic.messages_sent == messages


def test_memory_is_used_again_once_nothing_refers_to_it(remote: RemoteDevice) -> None:
    function = function_of(prepared_with(remote, MANY), MANY)
    addresses = {run(function, value, MANY).ctypes.data for value in range(20)}
    assert len(addresses) == 1
    part = run(function, 1, MANY)[5:10].reshape(5, 1)
    for value in range(20):
        run(function, 50 + value, MANY)
    assert part.tolist() == [[2]] * 5


def test_threads_call_at_the_same_time(remote: RemoteDevice) -> None:
    function = function_of(prepared_with(remote, MANY), MANY)

    def work(seed: int) -> None:
        kept: list[tuple[int, Any]] = []
        for value in range(30):
            kept = [*kept[-2:], (100 * seed + value, run(function, 100 * seed + value, MANY))]
            for number, output in kept:
                assert output[0] == output[-1] == number + 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))


@pytest.mark.parametrize(
    "arrays",
    [
        (),
        (np.zeros(3, np.float32), np.zeros(3, np.float32)),
        (np.zeros(4, np.float32),),
        (np.zeros((3, 1), np.float32),),
        (np.zeros(3, np.float64),),
        ([0.0, 0.0, 0.0],),
        (None,),
    ],
    ids=repr,
)
def test_other_arrays_are_left_to_the_caller(remote: RemoteDevice, arrays: tuple[Any, ...]) -> None:
    function = function_of(prepared_with(remote, 3), 3)
    assert function(*arrays) is None
    run(function, 2, 3)


@pytest.mark.parametrize("shape", [(), (1, 3), (3, 1), (2,), (4,)])
def test_shapes_other_than_those_of_the_inputs_have_no_function(
    remote: RemoteDevice, shape: tuple[int, ...]
) -> None:
    """The caller refuses such arrays, also those of as many elements."""
    assert prepared_with(remote, 3).create_array_function([shape], ()) is None


def test_inputs_need_not_be_contiguous(remote: RemoteDevice) -> None:
    function = function_of(prepared_with(remote, 3), 3)
    outputs = function(np.arange(6, dtype=np.float32)[::2])
    assert outputs is not None
    assert outputs[0].tolist() == [1, 3, 5]


def test_models_without_a_function(remote: RemoteDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepared_with(remote, 3)
    assert prepared.create_array_function([(3,)], [HostMemory(bytearray(12))]) is None
    monkeypatch.setattr(array_calls, "MAX_BYTES", 100)
    assert prepared.create_array_function([(3,)], ()) is None


def test_failures_are_left_to_the_caller(remote: RemoteDevice, device: AddingDevice) -> None:
    function = function_of(prepared_with(remote, 3), 3)
    run(function, 1, 3)

    def fail(*_: Any) -> None:
        raise OpFailed("no")

    device.on_execute = fail
    assert function(np.zeros(3, np.float32)) is None
    device.on_execute = lambda *_: None
    run(function, 2, 3)
    remote.close()
    assert function(np.zeros(3, np.float32)) is None


def test_nothing_is_kept_by_cycles(server: DeviceServer) -> None:
    gc.disable()
    try:
        remote = connect(str(server.address))
        function = function_of(prepared_with(remote, MANY), MANY)
        output = run(function, 1, MANY)
        connection: weakref.ref[Connection] = weakref.ref(remote._connection)
        del remote, function
        # A thread that was using it may be about to leave it.
        wait_until(lambda: connection() is None)
        assert output[0] == output[-1] == 2
        memories = memfds()
        assert memories > 0
        del output
        assert memfds() < memories
        wait_until(lambda: not any(thread.name == "neurald ring" for thread in threading.enumerate()))
    finally:
        gc.enable()


def memfds() -> int:
    """Returns how many working memories this process has mapped."""
    return Path("/proc/self/maps").read_text().count("memfd:neurald working memory")
