"""The CPU device: its description, deadlines, and concurrent executions."""

import threading
import time

import numpy as np
import pytest
from support.models.small import FLOAT, add_model

import neurald as nd
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.cpu.device import CpuDevice, create
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal import registry
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    BufferRole,
    ExecuteOptions,
    PrepareOptions,
)
from neurald.hal.errors import BadData, MissedDeadlinePersistent, MissedDeadlineTransient
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.sync.cancellation import Cancellation


def request(*arrays: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Request:
    """Returns a request; the last array is the output."""
    arguments = tuple(
        Argument(pool=n, length=array.nbytes, dimensions=array.shape) for n, array in enumerate(arrays)
    )
    return Request(
        inputs=arguments[:-1],
        outputs=(Argument(pool=len(arrays) - 1, length=arrays[-1].nbytes),),
        pools=tuple(HostMemory(array) for array in arrays),
    )


def floats(value: float, rows: int = 2) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.full((rows, 3), value, np.float32)


def test_description() -> None:
    device = create()
    assert device.name == "cpu"
    assert device.type is nd.DeviceType.CPU
    assert "neurald" in device.version
    assert device.feature_level is nd.FeatureLevel.LEVEL_8
    capabilities = device.capabilities()
    assert set(capabilities.operand_performance) == set(OperandType)
    assert {p.exec_time for p in capabilities.operand_performance.values()} == {1.0}


def test_it_supports_operations_with_a_reference() -> None:
    model = add_model(operations=3)
    assert [verdict.ok for verdict in CpuDevice().supported_operations(model)] == [True] * 3
    assert nd.OperationType.ADD in DEFINITIONS


def test_execute_reads_and_writes_in_place() -> None:
    prepared = CpuDevice().prepare_model(add_model(), PrepareOptions())
    output = floats(0)
    result = prepared.execute(request(floats(1), floats(2), output), ExecuteOptions(measure=True))
    np.testing.assert_array_equal(output, floats(3))
    assert result.is_sufficient
    assert result.timing.on_device_ns is not None
    assert result.timing.in_driver_ns is not None
    assert result.timing.on_device_ns <= result.timing.in_driver_ns


def test_a_short_output_is_not_written() -> None:
    prepared = CpuDevice().prepare_model(add_model((0, 3)), PrepareOptions())
    output = floats(7, rows=1)
    result = prepared.execute(request(floats(1), floats(2), output), ExecuteOptions())
    assert not result.is_sufficient
    assert result.output_shapes[0].dimensions == (2, 3)
    np.testing.assert_array_equal(output, floats(7, rows=1))


def test_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = request(floats(1), floats(2), floats(0))
    for device in (CpuDevice(), ReferenceDevice()):
        prepared = device.prepare_model(add_model(), PrepareOptions())
        with pytest.raises(MissedDeadlinePersistent):
            prepared.execute(ready, ExecuteOptions(deadline_s=time.monotonic() - 1))
        with pytest.raises(MissedDeadlinePersistent):
            device.prepare_model(add_model(), PrepareOptions(deadline_s=time.monotonic() - 1))
    prepared = ReferenceDevice().prepare_model(add_model(operations=2000), PrepareOptions())
    # These pass right after it was seen that they had not.
    for options in (ExecuteOptions, PrepareOptions):
        monkeypatch.setattr(options, "require_time", lambda _: None)
    with pytest.raises(MissedDeadlineTransient, match="before operation"):
        prepared.execute(ready, ExecuteOptions(deadline_s=time.monotonic()))
    with pytest.raises(MissedDeadlineTransient):
        CpuDevice().prepare_model(add_model(), PrepareOptions(deadline_s=time.monotonic()))


def test_the_version_follows_whether_the_device_compiles() -> None:
    device = CpuDevice(compiles=False)
    on_references = device.version
    device.compiles = True
    assert device.version == CpuDevice().version != on_references
    device.compiles = False
    assert device.version == on_references


def test_the_compiler_can_be_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURALD_CPU_COMPILER", "off")
    device = create()
    assert device.name == "cpu"
    assert isinstance(device.prepare_model(add_model(), PrepareOptions()), ReferenceModel)
    assert not device.cache_files_needed
    assert device.version != CpuDevice().version
    with pytest.raises(BadData, match="cannot load an artifact"):
        device.prepare_model_from_cache(Artifact(), PrepareOptions())
    monkeypatch.setenv("NEURALD_CPU_COMPILER", "maybe")
    with pytest.raises(BadData, match="on or off"):
        create()


def test_the_reference_device_compiles_nothing() -> None:
    device = registry.create_device("reference")
    assert device.name == "reference"
    assert isinstance(device.prepare_model(add_model(), PrepareOptions()), ReferenceModel)


def test_concurrent_executions() -> None:
    prepared = CpuDevice().prepare_model(add_model(operations=5), PrepareOptions())
    wrong: list[float] = []

    def work(value: float) -> None:
        for _ in range(30):
            output = floats(0)
            prepared.execute(request(floats(value), floats(1), output), ExecuteOptions())
            wrong.extend(output[output != value + 5])

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_shapes_that_are_invalid_at_execution() -> None:
    builder = nd.ModelBuilder()
    first, second = builder.add_operand(FLOAT, (0, 3)), builder.add_operand(FLOAT, (0, 3))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    output = builder.add_operand(FLOAT, (4, 3))
    builder.add_operation(nd.OperationType.ADD, [first, second, none], [output])
    builder.identify_inputs_and_outputs([first, second], [output])
    prepared = CpuDevice().prepare_model(builder.finish(), PrepareOptions())
    for rows in ((2, 2), (2, 3)):
        arrays = [floats(1, rows=n) for n in rows]
        with pytest.raises(nd.Error, match="operation 0 ADD") as caught:
            prepared.execute(request(*arrays, floats(0, rows=4)), ExecuteOptions())
        assert caught.value.code is nd.ResultCode.OP_FAILED


def test_memory_for_roles() -> None:
    device = create()
    prepared = device.prepare_model(add_model((2, 3)), PrepareOptions())
    role = BufferRole(prepared_model=prepared, index=1)
    assert device.allocate(BufferDescription(dimensions=None, input_roles=(role,))).size == 24
    with pytest.raises(BadData, match="at least one role"):
        device.allocate(BufferDescription(dimensions=(2, 3)))
    for index in (-1, 2):
        wrong = BufferRole(prepared_model=prepared, index=index)
        with pytest.raises(BadData, match=f"input {index}"):
            device.allocate(BufferDescription(dimensions=None, input_roles=(wrong,)))


def test_memory_is_only_for_the_device_s_own_models() -> None:
    device, model = create(), add_model((0, 3))
    for prepared, is_own in (
        (CpuDevice().prepare_model(model, PrepareOptions()), True),
        (SpecializingModel(model, lambda *_: ReferenceModel(model), owner=object(), tolerant=False), False),
    ):
        roles = (BufferRole(prepared_model=prepared, index=0),)
        description = BufferDescription(dimensions=(2, 3), input_roles=roles)
        if is_own:
            assert device.allocate(description).size == 24
        else:
            with pytest.raises(BadData, match="did not prepare"):
                device.allocate(description)


def test_a_request_can_be_bound() -> None:
    prepared = create().prepare_model(add_model(), PrepareOptions())
    first, second, result = floats(1), floats(2), floats(0)
    wanted = request(first, second, result)
    assert isinstance(prepared, CpuPreparedModel)
    assert prepared.create_reusable_execution(wanted) is None
    prepared.execute(wanted, ExecuteOptions())
    again = prepared.create_reusable_execution(wanted)
    assert again is not None
    for value in range(3):
        first[:] = value
        again(Cancellation())
        np.testing.assert_array_equal(result, first + second)
