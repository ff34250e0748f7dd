"""Instances of a model for native code: created when needed, up to a limit."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from support.models.addition import addition, request

from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native import native_model
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.execution.native_serving import INSTANCE_BYTES, NativeCall
from neurald.hal.model.request import Argument
from neurald.hal.records import replace


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> CpuPreparedModel:
    monkeypatch.setattr(native_model, "_MAX_INSTANCES", 3)
    prepared = CpuDevice().prepare_model(addition(np.ones(3, np.float32)), PrepareOptions())
    assert isinstance(prepared, CpuPreparedModel)
    return prepared


def instances(call: NativeCall) -> list[int]:
    count = ctypes.c_int64.from_address(call.instances).value
    first = call.instances + INSTANCE_BYTES + 8
    return [ctypes.c_int64.from_address(first + INSTANCE_BYTES * n).value for n in range(count)]


def test_requests_that_lack_an_argument_have_no_call(prepared: CpuPreparedModel) -> None:
    values, result = np.zeros(3, np.float32), np.zeros(3, np.float32)
    assert prepared.create_native_call(request(values, result)) is not None
    assert prepared.create_native_call(request(values, result[:2])) is None
    complete = request(values, result)
    omitted = replace(complete, inputs=(Argument(pool=None),))
    assert prepared.create_native_call(omitted) is None


def test_requests_share_instances(prepared: CpuPreparedModel) -> None:
    requests = [request(np.zeros(3, np.float32), np.zeros(3, np.float32)) for _ in range(2)]
    calls = []
    for wanted in requests:
        prepared.execute(wanted, ExecuteOptions())
        call = prepared.create_native_call(wanted)
        assert call is not None
        calls.append(call)
    assert calls[0].instances == calls[1].instances
    assert calls[0].binding != calls[1].binding
    assert len(instances(calls[0])) == 1
    for _ in range(5):
        calls[1].grow()
    found = instances(calls[0])
    assert len(found) == len(set(found)) == 3
    assert all(found)


@pytest.mark.parametrize("threads", [1, 2])
def test_short_steps_may_be_run_alone(threads: int) -> None:
    values, result = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    model, options = addition(np.ones(3, np.float32)), PrepareOptions(threads=threads)
    prepared = CpuDevice().prepare_model(model, options)
    assert isinstance(prepared, CpuPreparedModel)
    call = prepared.create_native_call(request(values, result))
    assert call is not None
    assert (call.alone is not None) == (threads > 1)
    if call.alone is not None:
        alone = call.alone()
        assert alone.binding == call.binding
        assert not set(instances(alone)) & set(instances(call))
        assert call.alone().instances == alone.instances


def test_instances_are_released_with_the_last_reference() -> None:
    values, result = np.zeros(3, np.float32), np.zeros(3, np.float32)
    options = PrepareOptions(threads=2)
    prepared = CpuDevice().prepare_model(addition(np.ones(3, np.float32)), options)
    assert isinstance(prepared, CpuPreparedModel)
    call = prepared.create_native_call(request(values, result))
    assert call is not None
    if call.alone is not None:
        call.alone()
    released: list[weakref.ref[object]] = [weakref.ref(prepared.native), weakref.ref(prepared.native._served)]
    gc.disable()
    try:
        del prepared, call
        assert [each() for each in released] == [None, None]
    finally:
        gc.enable()
