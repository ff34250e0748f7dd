"""The OpenCL device: what it supports, prepares and refuses, and the results of executions."""

import threading
import time

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.models.joined import joined_model
from support.models.small import add_model
from support.opencl.batch import BatchingDevice
from support.opencl.models import (
    BOOL,
    FLOAT,
    INT32,
    QUANT8,
    Models,
    expect_close,
    random_inputs,
    random_model,
    request_of,
    run,
)
from support.sweeps import sweep
from support.tiers import one_in

import neurald as nd
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.device import OpenClDevice, create, get_ready
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import BufferDescription, BufferRole, ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.errors import BadData, MissedDeadlinePersistent, OpFailed
from neurald.hal.model.model import Model
from neurald.hal.model.types import DeviceType, Preference
from neurald.hal.records import replace

_Op = nd.OperationType
OPTIONS = PrepareOptions()
#: Random models; each has about ten operations.
SEEDS = range(16)


@pytest.fixture(scope="session")
def device(opencl: DeviceContext) -> OpenClDevice:
    return OpenClDevice(opencl.facts)


@pytest.fixture(scope="session", params=["fused", "not fused"])
def batch(opencl: DeviceContext, request: pytest.FixtureRequest) -> BatchingDevice:
    found = BatchingDevice(opencl.facts, is_fused=request.param == "fused")
    found.build(random_model(seed) for seed in SEEDS)
    return found


@pytest.fixture
def cpu() -> nd.Device:
    return ReferenceDevice()


def on(device: nd.Device, model: Model, *inputs: np.ndarray) -> list[np.ndarray]:
    return run(device.prepare_model(model, OPTIONS), model, inputs)


@pytest.mark.parametrize("seed", one_in(2, SEEDS))
def test_random_models(seed: int, batch: BatchingDevice, cpu: nd.Device) -> None:
    model = random_model(seed)
    assert all(verdict.ok for verdict in batch.supported_operations(model))
    inputs = random_inputs(model, seed)
    expect_close(on(batch, model, *inputs), on(cpu, model, *inputs), 1e-4)


@pytest.mark.parametrize("kind", [FLOAT, QUANT8], ids=["float", "quant8"])
def test_chains_of_values(kind: nd.OperandType, opencl: DeviceContext, cpu: nd.Device) -> None:
    batch = BatchingDevice(opencl.facts)
    models = [joined_model(seed, kind) for seed in range(10)]
    batch.build(models)
    for seed, model in enumerate(models):
        inputs = random_inputs(model, seed)
        expect_close(on(batch, model, *inputs), on(cpu, model, *inputs), 1e-4)


def test_properties(device: OpenClDevice) -> None:
    other = create()
    assert (other.name, other.version) == ("opencl", device.version)
    assert device.facts.digest in device.version
    assert device.type in (DeviceType.CPU, DeviceType.GPU, DeviceType.ACCELERATOR)
    assert (device.cache_files_needed.model, device.cache_files_needed.data) == (1, 1)


def gathering(kind: nd.OperandType = FLOAT) -> Model:
    models = Models()
    table, places = models.input(kind, (5, 3)), models.input(INT32, (4,))
    gathered = models.add(_Op.GATHER, [table, models.number(0), places], shape=(4, 3))
    return models.finish(models.add(_Op.RELU, [gathered], shape=(4, 3)))


TABLE = np.arange(15, dtype=np.float32).reshape(5, 3) - 7


@sweep("wrong", [5, -1, 2**31 - 1, -(2**31)])
def test_failed_requirements_name_the_operation(device: OpenClDevice, wrong: int) -> None:
    model = gathering()
    prepared = device.prepare_model(model, OPTIONS)
    good = np.array([4, 0, 2, 2], np.int32)
    for _ in range(2):
        with pytest.raises(OpFailed, match=r"operation .*0"):
            run(prepared, model, [TABLE, np.array([1, wrong, 0, 3], np.int32)])
        (result,) = run(prepared, model, [TABLE, good])
        np.testing.assert_array_equal(result, np.maximum(TABLE[good], 0))


def test_concurrent_executions(device: OpenClDevice, cpu: nd.Device) -> None:
    """Several models, each executed from more threads than there are instances."""
    models = [random_model(seed, operations=5) for seed in (100, 101)]
    prepared = [device.prepare_model(model, OPTIONS) for model in models]
    work = [
        (each, model, inputs, on(cpu, model, *inputs))
        for each, model in zip(prepared, models, strict=True)
        for inputs in (random_inputs(model, seed) for seed in range(6))
    ]
    failures: list[BaseException] = []

    def repeat(item: int) -> None:
        each, model, inputs, expected = work[item]
        try:
            for _ in range(15):
                expect_close(run(each, model, inputs), expected, 1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=repeat, args=(item,)) for item in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        (FLOAT, _Op.ABS),
        (nd.OperandType.TENSOR_FLOAT16, _Op.ABS),
        (BOOL, _Op.LOGICAL_NOT),
        (INT32, _Op.ABS),
        (QUANT8, _Op.RELU),
        (nd.OperandType.TENSOR_INT64, _Op.TFLITE_NEG),
    ],
)
def test_inputs_and_outputs_of_every_type(
    device: OpenClDevice, cpu: nd.Device, kind: nd.OperandType, operation: nd.OperationType
) -> None:
    models = Models()
    model = models.finish(models.add(operation, [models.input(kind, (3, 5))], shape=(3, 5)))
    inputs = random_inputs(model)
    expect_close(on(device, model, *inputs), on(cpu, model, *inputs))


def test_zero_sizes(device: OpenClDevice) -> None:
    models = Models()
    empty, other = models.input(FLOAT, (0, 3)), models.input(FLOAT, (1, 3))
    added = models.add(_Op.ADD, [empty, other, models.number(0)], shape=(0, 3))
    total = models.add(_Op.REDUCE_SUM, [added, models.constant([0]), models.number(True)], shape=(0, 3))
    whole = models.add(_Op.CONCATENATION, [total, empty, other, models.number(0)], shape=(0, 3))
    model = models.finish(added, whole)
    prepared = device.prepare_model(model, OPTIONS)
    row = np.array([[1, 2, 3]], np.float32)
    request, (none, both) = request_of(model, [np.zeros((0, 3), np.float32), row], [(0, 3), (2, 3)])
    assert prepared.execute(request, ExecuteOptions()).is_sufficient
    assert none.size == 0
    np.testing.assert_array_equal(both, np.concatenate([np.zeros((1, 3)), row]))


def test_inputs_as_outputs_and_repeated_outputs(device: OpenClDevice) -> None:
    models = Models()
    first, second = models.input(FLOAT, (2, 2)), models.input(INT32, (3,))
    negative = models.add(_Op.ABS, [first], shape=(2, 2))
    wide = models.add(_Op.EXPAND_DIMS, [second, models.number(0)], shape=(1, 3))
    model = models.finish(negative, wide)
    array, numbers = np.array([[-1, 2], [3, -4]], np.float32), np.array([5, 6, 7], np.int32)
    one, other = on(device, model, array, numbers)
    np.testing.assert_array_equal(one, np.abs(array))
    np.testing.assert_array_equal(other, numbers.reshape(1, 3))


def test_insufficient_outputs_report_their_shape(device: OpenClDevice) -> None:
    model = gathering()
    prepared = device.prepare_model(model, OPTIONS)
    inputs = [TABLE, np.zeros(4, np.int32)]
    request, outputs = request_of(model, inputs, [(3, 3)])
    result = prepared.execute(request, ExecuteOptions())
    assert not result.is_sufficient
    assert [shape.dimensions for shape in result.output_shapes] == [(4, 3)]
    assert (outputs[0] == 77).all()
    request, outputs = request_of(model, inputs, [(5, 3)])
    assert prepared.execute(request, ExecuteOptions()).is_sufficient
    np.testing.assert_array_equal(outputs[0].reshape(-1)[:12].reshape(4, 3), np.maximum(TABLE[[0] * 4], 0))


def test_an_omitted_input_is_refused(device: OpenClDevice) -> None:
    model = gathering()
    prepared = device.prepare_model(model, OPTIONS)
    request, _ = request_of(model, [TABLE, None])
    with pytest.raises(OpFailed, match="input 1 is omitted"):
        prepared.execute(request, ExecuteOptions())
    assert run(prepared, model, [TABLE, np.zeros(4, np.int32)])


def test_deadlines(device: OpenClDevice) -> None:
    model = gathering()
    with pytest.raises(MissedDeadlinePersistent):
        device.prepare_model(model, PrepareOptions(deadline_s=time.monotonic() - 1))
    prepared = device.prepare_model(model, PrepareOptions(deadline_s=time.monotonic() + 60))
    request, _ = request_of(model, [TABLE, np.zeros(4, np.int32)])
    with pytest.raises(MissedDeadlinePersistent):
        prepared.execute(request, ExecuteOptions(deadline_s=time.monotonic() - 1))
    assert prepared.execute(request, ExecuteOptions(deadline_s=time.monotonic() + 60)).is_sufficient


def test_measured_times(device: OpenClDevice) -> None:
    model = gathering()
    prepared = device.prepare_model(model, OPTIONS)
    request, _ = request_of(model, [TABLE, np.zeros(4, np.int32)])
    assert prepared.execute(request, ExecuteOptions()).timing.on_device_ns is None
    timing = prepared.execute(request, ExecuteOptions(measure=True)).timing
    assert timing.on_device_ns is not None
    assert timing.in_driver_ns is not None
    assert 0 < timing.on_device_ns <= timing.in_driver_ns


def open_model() -> Model:
    """Returns a model whose length is known at execution only."""
    models = Models()
    source = models.input(FLOAT, (0, 3))
    added = models.add(_Op.ADD, [source, models.constant(np.ones((1, 3))), models.number(0)], shape=(0, 3))
    return models.finish(models.add(_Op.SOFTMAX, [added, models.number(1.0)], shape=(0, 3)))


def test_unsupported_operations_have_reasons(device: OpenClDevice) -> None:
    models = Models()
    source, length = models.input(FLOAT, (6,)), models.input(INT32, (2,))
    model = models.finish(models.add(_Op.RESHAPE, [source, length], shape=(0, 0)))
    (verdict,) = device.supported_operations(model)
    assert not verdict.ok
    assert verdict.reason
    with pytest.raises(BadData, match="opencl: "):
        device.prepare_model(model, OPTIONS)


def test_values_that_are_too_large_are_refused(device: OpenClDevice) -> None:
    models = Models()
    source = models.input(QUANT8, (2**16, 2**15))
    model = models.finish(models.add(_Op.RELU, [source], shape=(2**16, 2**15)))
    (verdict,) = device.supported_operations(model)
    assert "too large" in verdict.reason


def test_top_k_of_long_rows_is_unsupported(device: OpenClDevice) -> None:
    models = Models()
    source, count = models.input(FLOAT, (20_000,)), models.number(20_000)
    largest, places = (models.builder.add_operand(kind, (20_000,)) for kind in (FLOAT, INT32))
    models.builder.add_operation(_Op.TOPK_V2, [source, count], [largest, places])
    (verdict,) = device.supported_operations(models.finish(largest, places))
    assert "too large to expand" in verdict.reason


def test_float64_needs_device_support(opencl: DeviceContext) -> None:
    builder = GraphBuilder()
    graph = builder.finish(builder.top_k(builder.input(5, type=Scalar.FLOAT64), 1, prefers_lower_index=True))
    for has_fp64 in (False, True):
        device = OpenClDevice(replace(opencl.facts, has_fp64=has_fp64))
        assert ("float64" in device._unsupported_reason(graph)) != has_fp64


def test_allocated_memory_serves_its_roles(device: OpenClDevice, cpu: nd.Device) -> None:
    model = gathering()
    prepared = device.prepare_model(model, OPTIONS)
    roles = (BufferRole(prepared_model=prepared, index=0),)
    memory = device.allocate(BufferDescription(dimensions=None, input_roles=roles, output_roles=()))
    assert memory.size == TABLE.nbytes
    stranger = cpu.prepare_model(model, OPTIONS)
    roles = (BufferRole(prepared_model=stranger, index=0),)
    with pytest.raises(BadData, match="did not prepare"):
        device.allocate(BufferDescription(dimensions=None, input_roles=roles, output_roles=()))
    for index in (-1, 2):
        roles = (BufferRole(prepared_model=prepared, index=index),)
        with pytest.raises(BadData, match=f"input {index}"):
            device.allocate(BufferDescription(dimensions=None, input_roles=roles, output_roles=()))


def test_memory_for_models_of_other_devices_is_refused(
    device: OpenClDevice, opencl: DeviceContext, cpu: nd.Device
) -> None:
    def allocate(prepared: PreparedModel) -> int:
        roles = (BufferRole(prepared_model=prepared, index=0),)
        return device.allocate(BufferDescription(dimensions=(4, 3), input_roles=roles, output_roles=())).size

    for model in (open_model(), add_model((4, 3))):
        assert allocate(device.prepare_model(model, OPTIONS)) == 4 * 3 * 4
        for stranger in (OpenClDevice(opencl.facts), nd.devices()[0], cpu):
            with pytest.raises(BadData, match="did not prepare"):
                allocate(stranger.prepare_model(model, OPTIONS))


def test_profiles_name_every_kernel(device: OpenClDevice) -> None:
    prepared = device.prepare_model(gathering(), PrepareOptions(preference=Preference.LOW_POWER))
    assert isinstance(prepared, OpenClPreparedModel)
    times = [each for each in prepared.profile() if not each.is_copy]
    assert len(times) == len(prepared.executable.calls)
    assert all(each.duration_ns >= 0 for each in times)
    assert run(prepared, gathering(), [TABLE, np.zeros(4, np.int32)])


def test_unspecified_shapes_are_compiled_at_execution(device: OpenClDevice, cpu: nd.Device) -> None:
    model = open_model()
    prepared = device.prepare_model(model, PrepareOptions(cache_key=b"k" * 32))
    assert isinstance(prepared, SpecializingModel)
    assert prepared.artifact() is None
    for rows in (2, 5, 2):
        source = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        request, (result,) = request_of(model, [source], [(rows, 3)])
        assert prepared.execute(request, ExecuteOptions()).is_sufficient
        request, (expected,) = request_of(model, [source], [(rows, 3)])
        assert cpu.prepare_model(model, OPTIONS).execute(request, ExecuteOptions()).is_sufficient
        expect_close([result], [expected])


def test_it_is_found_beforehand_and_opened_later(opencl: DeviceContext) -> None:
    get_ready()
    ready = create()
    assert ready.version == OpenClDevice(ready.facts).version
    assert ready._context is None
    assert create() is not ready
    ready.open_ahead()
    context = ready._context
    assert context is not None
    ready.open_ahead()
    assert ready.context is context
    assert ready.facts.name == opencl.facts.name
