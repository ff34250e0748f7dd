"""Executions of a prepared model, which go through a ring of their connection."""

import sys
from typing import Any

import numpy as np
import pytest
from support.daemon.ring_calls import Caller
from support.daemon.traffic import Traffic
from support.models.addition import AddingDevice, addition, request

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import (
    BadData,
    OpFailed,
    Unmappable,
)
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.client.device import RemoteDevice
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel

NOW = PrepareOptions()
RUN = ExecuteOptions()
ONES = np.ones(3, np.float32)


def test_executions_make_no_calls(
    remote: RemoteDevice, prepared: RemotePreparedModel, traffic: Traffic
) -> None:
    caller = Caller()
    messages = traffic.messages_sent
    for value in range(50):
        caller.run(prepared, value)
        Caller().run(prepared, value)  # new arrays use the arena of the ring
    assert traffic.messages_sent == messages
    assert len(prepared.connection.rings) == 1


def test_one_request_for_two_models(remote: RemoteDevice, prepared: RemotePreparedModel) -> None:
    other = remote.prepare_model(addition(ONES + 1), NOW)
    caller = Caller()
    for value in range(4):
        caller.run(prepared, value)
        other.execute(caller.request, RUN)
        assert caller.result.tolist() == [value + 2] * 3


def test_a_request_at_the_address_of_an_earlier_one(prepared: RemotePreparedModel) -> None:
    """It is run as it is, although what removes the earlier one was interrupted."""
    first, second = Caller(), Caller()
    first.run(prepared, 1)
    (ring,) = prepared.connection.rings._free
    ring._bound[id(second.request)] = ring._bound[id(first.request)]
    assert ring.knows(first.request)
    assert not ring.knows(second.request)
    assert ring.result(second.request) is None
    for value in range(3):
        second.run(prepared, value)
        assert first.result.tolist() == [2] * 3


def test_invalid_requests_are_refused_as_by_grpc(prepared: RemotePreparedModel) -> None:
    memory = SharedMemory.create(1024)
    wrong = Request(
        inputs=(Argument(pool=0, length=16),),
        outputs=(Argument(pool=0, offset=64, length=12),),
        pools=(memory,),
    )
    for _ in range(2):
        with pytest.raises(BadData, match="16 bytes"):
            prepared.execute(wrong, RUN)
    Caller().run(prepared, 3)
    assert len(prepared.connection.rings) == 1


def test_errors_of_the_driver(prepared: RemotePreparedModel, device: AddingDevice) -> None:
    def fail(*_: Any) -> None:
        raise Unmappable("one of its own")

    def end(*_: Any) -> None:
        sys.exit("as a script does")

    device.on_execute = fail
    for _ in range(2):
        with pytest.raises(Unmappable, match="one of its own"):
            Caller().run(prepared, 1)
    device.on_execute = end
    with pytest.raises(OpFailed, match="internal error of the daemon"):
        Caller().run(prepared, 1)
    device.on_execute = lambda *_: None
    Caller().run(prepared, 2)
    assert len(prepared.connection.rings) == 1


def test_shapes_and_timing(remote: RemoteDevice) -> None:
    prepared = remote.prepare_model(addition(np.ones((1, 2)), dynamic=True), NOW)
    result = np.zeros((2, 2), np.float32)
    for rows in (1, 3, 2, 3, 1):
        values = np.full((rows, 2), rows, np.float32)
        answer = prepared.execute(request(values, result), ExecuteOptions(measure=rows == 2))
        assert answer.output_shapes[0].dimensions == (rows, 2)
        assert answer.is_sufficient == (rows <= 2)
        assert answer.timing.in_driver_ns == (2 if rows == 2 else None)


def test_a_daemon_that_breaks_the_protocol(
    prepared: RemotePreparedModel, monkeypatch: pytest.MonkeyPatch, device: AddingDevice
) -> None:
    monkeypatch.setattr("neurald.hal.rpc.server.ring_server.shapes_packet", lambda number, shapes: b"\x05")
    with pytest.raises(OpFailed, match="broke the protocol"):
        Caller().run(prepared, 1)
    monkeypatch.undo()
    Caller().run(prepared, 2)
