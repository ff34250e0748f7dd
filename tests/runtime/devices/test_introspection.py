"""Devices that the application lists explicitly: compilation, computation, durations and feature
levels.

Restates TestIntrospectionControl.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice
from support.devices.modes import MODES, compute
from support.errors import error_code
from support.models.control_flow import ADD, BOOL, MUL, Graph, arithmetic, branching
from support.models.plans import CONTROL_FLOW, assert_same_as_on_cpu, compiled, cpu, only
from support.models.small import add_model, bound_execution
from support.process.threads import refuse_threads
from support.sweeps import sweep

import neurald as nd
from neurald._proto import device_pb2
from neurald.hal.device import MAX_DURATION_NS, ExecuteOptions, ExecutionResult, PreparedModel, Timing
from neurald.hal.errors import BadData, Error, OpFailed
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.model.types import FeatureLevel
from neurald.hal.process.address import Address
from neurald.hal.records import replace
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.wire.device import description_from_wire, description_to_wire
from neurald.hal.validation.model_rules import operation_levels, validate_model
from neurald.runtime.devices.daemons import run_concurrently

Code = nd.ResultCode
T = nd.OperationType


class TimedDevice(SampleDevice):
    """Reports `timing` for executions, or raises `error`.

    The timing is measured unless it is given.
    """

    def __init__(self) -> None:
        super().__init__("timed", performance=0.5)
        self.timing: Timing | None = None
        self.error: nd.Error | None = None

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                if device.error is not None:
                    raise device.error
                result = prepared.execute(request, options)
                if device.timing is None or not options.measure:
                    return result
                return replace(result, timing=device.timing)

        return Prepared()


Reach = Callable[[SampleDevice], nd.Device]


@pytest.fixture(params=["in process", "behind a socket"])
def reach(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reach]:
    """Returns the device as a client sees it: in this process or through a daemon."""
    servers: list[DeviceServer] = []

    def connect(device: SampleDevice) -> nd.Device:
        if request.param == "in process":
            return device
        address = Address.parse(f"unix://{tmp_path}/{len(servers)}.sock")
        servers.append(DeviceServer(device, address))
        servers[-1].start()
        return nd.connect(str(servers[-1].address))

    yield connect
    for server in servers:
        server.stop()


# One explicit device


@pytest.mark.parametrize("mode", MODES)
def test_an_explicit_device_compiles_and_computes(mode: str, reach: Reach) -> None:
    device = SampleDevice("chosen", performance=100.0)
    compilation = compiled(add_model(), reach(device))
    assert len(device.prepared) == 1
    assert [step.device.name.partition("@")[0] for step in compilation.plan.steps] == ["chosen"]
    execution, output = bound_execution(compilation)
    compute(execution, mode)
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


def measured(compilation: nd.Compilation) -> nd.Execution:
    execution, _ = bound_execution(compilation, reusable=True)
    execution.set_measure_timing()
    return execution


def durations(execution: nd.Execution) -> dict[nd.Duration, int | None]:
    return {duration: execution.duration(duration) for duration in nd.Duration}


@pytest.mark.parametrize("mode", MODES)
def test_on_hardware_in_driver_and_around(mode: str, reach: Reach) -> None:
    execution = measured(compiled(add_model(), reach(TimedDevice())))
    for _ in range(3):
        started = time.perf_counter_ns()
        compute(execution, mode)
        wall = time.perf_counter_ns() - started
        told = durations(execution)
        on_hardware, in_driver = told[nd.Duration.ON_HARDWARE], told[nd.Duration.IN_DRIVER]
        assert on_hardware is not None
        assert in_driver is not None
        assert 0 < on_hardware <= in_driver <= wall
        fenced = told[nd.Duration.FENCED_ON_HARDWARE], told[nd.Duration.FENCED_IN_DRIVER]
        assert fenced[0] is not None
        assert fenced[1] is not None
        assert 0 < fenced[0] <= fenced[1] <= in_driver


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("on_device", "in_driver"),
    [(None, None), (0, 0), (1, 2), (None, 5), (5, None), (MAX_DURATION_NS - 10, MAX_DURATION_NS)],
)
def test_what_drivers_tell(on_device: int | None, in_driver: int | None, mode: str, reach: Reach) -> None:
    device = TimedDevice()
    device.timing = Timing(on_device_ns=on_device, in_driver_ns=in_driver)
    execution = measured(compiled(add_model(), reach(device)))
    for _ in range(2):
        compute(execution, mode)
        told = durations(execution)
        if mode == "burst" and in_driver == MAX_DURATION_NS:
            # A burst transfers times as 63-bit numbers.
            assert min(ns or 0 for ns in told.values()) >= 2**63 - 1
            continue
        assert told[nd.Duration.ON_HARDWARE] == on_device
        assert told[nd.Duration.FENCED_ON_HARDWARE] == on_device
        assert told[nd.Duration.FENCED_IN_DRIVER] == in_driver
        if mode != "fenced" or in_driver is None:
            assert told[nd.Duration.IN_DRIVER] == in_driver
        else:
            waited = told[nd.Duration.IN_DRIVER]
            assert waited is not None
            assert in_driver <= waited <= MAX_DURATION_NS


@pytest.mark.parametrize("mode", MODES)
def test_no_duration_of_what_failed_or_was_not_measured(mode: str, reach: Reach) -> None:
    device = TimedDevice()
    compilation = compiled(add_model(), reach(device))
    execution = measured(compilation)
    device.error = OpFailed("as told")
    assert error_code(compute, execution, mode) is Code.OP_FAILED
    plain, _ = bound_execution(compilation)
    device.error = None
    compute(plain, mode)
    for each in (execution, plain):
        for duration in nd.Duration:
            assert error_code(each.duration, duration) is Code.BAD_STATE
    compute(execution, mode)
    assert durations(execution)[nd.Duration.IN_DRIVER] is not None


@pytest.mark.parametrize("mode", MODES)
def test_durations_of_plans_over_two_devices(mode: str, reach: Reach) -> None:
    model = chain(ADD, MUL)
    adder = reach(SampleDevice("adder", supports=lambda kind: kind is ADD))
    multiplier = reach(SampleDevice("multiplier", supports=lambda kind: kind is MUL))
    execution = nd.Execution(compiled(model, adder, multiplier))
    execution.set_input(0, np.ones(2, np.float32))
    execution.set_output(0, np.zeros(2, np.float32))
    execution.set_measure_timing()
    started = time.perf_counter_ns()
    compute(execution, mode)
    wall = time.perf_counter_ns() - started
    told = durations(execution)
    on_hardware, in_driver = told[nd.Duration.ON_HARDWARE], told[nd.Duration.IN_DRIVER]
    assert on_hardware is not None
    assert in_driver is not None
    assert 0 < on_hardware <= in_driver <= wall


# Partial support


def chain(*types: nd.OperationType) -> nd.Model:
    """Builds a chain of binary operations, each with the constant 1."""
    graph = Graph()
    source = value = graph.value()
    one = graph.constant([1, 1])
    for kind in types:
        inputs = [value, one] if kind in (T.MAXIMUM, T.MINIMUM) else [value, one, graph.none]
        value = graph.value()
        graph.builder.add_operation(kind, inputs, [value])
    return graph.finish([source], [value])


@pytest.mark.parametrize("types", list(itertools.permutations((ADD, MUL, T.MAXIMUM))), ids=repr)
@pytest.mark.sampled(2)
def test_partial_support_in_any_order(types: Sequence[nd.OperationType], reach: Reach) -> None:
    model = chain(*types)
    ones = {kind: reach(only(kind.name, kind)) for kind in types}
    for count in (1, 2):
        for some in itertools.combinations(ones.values(), count):
            builder = nd.CompilationBuilder(model, some)
            builder.set_caching(None)
            assert error_code(builder.finish) is Code.BAD_DATA
    for order in itertools.permutations(ones.values()):
        compilation = compiled(model, *order)
        assert [step.device for step in compilation.plan.steps] == [ones[kind] for kind in types]
        assert_same_as_on_cpu(model, compilation, np.array([-2, 3], np.float32))
    supported = nd.supported_operations(model, list(ones.values()))
    for kind in types:
        assert [verdict.ok for verdict in supported[ones[kind].name]] == [found is kind for found in types]


# Feature levels


class OldDevice(SampleDevice):
    """Fails if it is asked about an operation that is newer than its feature level."""

    def __init__(self, level: FeatureLevel) -> None:
        super().__init__(level.name, performance=0.5)
        self.feature_level = level

    def supported_operations(self, model: nd.Model) -> tuple[nd.Verdict, ...]:
        self._require_old(model)
        return tuple(super().supported_operations(model))

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        self._require_old(self.prepared[-1])
        return prepared

    def _require_old(self, model: Model) -> None:
        validate_model(model)
        assert model.main.operations
        assert max(operation_levels(model)) <= self.feature_level


#: MAXIMUM is of level 3.
@pytest.mark.parametrize("types", sorted(set(itertools.permutations((ADD, T.MAXIMUM, ADD)))), ids=repr)
@pytest.mark.parametrize("level", [FeatureLevel.LEVEL_1, FeatureLevel.LEVEL_2, FeatureLevel.LEVEL_3])
@pytest.mark.sampled(2)
def test_an_old_device_alone_and_with_the_cpu(
    types: Sequence[nd.OperationType], level: FeatureLevel, reach: Reach
) -> None:
    model = chain(*types)
    device = reach(OldDevice(level))
    is_new = level >= FeatureLevel.LEVEL_3
    verdicts = nd.supported_operations(model, [device])[device.name]
    assert [verdict.ok for verdict in verdicts] == [is_new or kind is ADD for kind in types]
    alone = nd.CompilationBuilder(model, [device])
    alone.set_caching(None)
    if is_new:
        assert alone.finish().plan.is_simple
    else:
        assert error_code(alone.finish) is Code.BAD_DATA
    both = compiled(model, device, cpu())
    found = {step.device.name for step in both.plan.steps}
    assert found == ({device.name} if is_new else {device.name, cpu().name})
    assert_same_as_on_cpu(model, both, np.array([-2, 3], np.float32))


def test_a_device_too_old_for_everything(reach: Reach) -> None:
    model = chain(T.MAXIMUM, T.MINIMUM)
    device = reach(OldDevice(FeatureLevel.LEVEL_1))
    assert not any(verdict.ok for verdict in nd.supported_operations(model, [device])[device.name])
    assert compiled(model, device, cpu()).plan.steps[0].device is cpu()


def packing() -> nd.Model:
    """Builds x -> PACK(x), an operation of level 6, as one vector."""
    graph = Graph()
    source, axis = graph.value(shape=(2,)), graph.builder.add_operand(nd.OperandType.INT32)
    graph.builder.set_operand_value(axis, 0)
    packed, shape, result = graph.value(shape=(1, 2)), graph.constant([2], nd.OperandType.TENSOR_INT32), None
    graph.builder.add_operation(T.PACK, [axis, source], [packed])
    result = graph.value()
    graph.builder.add_operation(T.RESHAPE, [packed, shape], [result])
    return graph.finish([source], [result])


def control_flow(then: nd.Model) -> nd.Model:
    """(condition, x) -> (IF condition THEN then(x) ELSE x + 1) + 1."""
    graph = Graph()
    condition, source = graph.value(BOOL, (1,)), graph.value()
    chosen = graph.value()
    branches = [graph.model(then), graph.model(arithmetic(ADD, 1))]
    graph.builder.add_operation(T.IF, [condition, *branches, source], [chosen])
    return graph.finish([condition, source], [graph.binary(ADD, chosen, graph.constant([1]), graph.value())])


@pytest.mark.parametrize("then", [arithmetic(MUL, 2), packing()], ids=["old branch", "new branch"])
@pytest.mark.parametrize(
    "level",
    [
        FeatureLevel.LEVEL_1,
        FeatureLevel.LEVEL_3,
        FeatureLevel.LEVEL_4,
        FeatureLevel.LEVEL_6,
        FeatureLevel.LEVEL_8,
    ],
)
@pytest.mark.sampled(2)
def test_control_flow_is_as_new_as_its_branches(level: FeatureLevel, then: nd.Model, reach: Reach) -> None:
    model = control_flow(then)
    device = reach(OldDevice(level))
    needed = max(FeatureLevel.LEVEL_4, *operation_levels(then))
    verdicts = nd.supported_operations(model, [device])[device.name]
    assert [verdict.ok for verdict in verdicts] == [level >= needed, True]
    compilation = compiled(model, device, cpu())
    assert compilation.plan.is_simple is (level >= needed)
    for condition in (True, False):
        assert_same_as_on_cpu(model, compilation, np.array([condition]), np.array([3, 4], np.float32))


def test_control_flow_that_a_device_does_not_have(reach: Reach) -> None:
    model = branching(arithmetic(ADD, 1), arithmetic(MUL, 2))
    device = reach(SampleDevice("flat", supports=lambda kind: kind not in CONTROL_FLOW))
    builder = nd.CompilationBuilder(model, [device])
    builder.set_caching(None)
    assert error_code(builder.finish) is Code.BAD_DATA
    assert_same_as_on_cpu(
        model, compiled(model, device, cpu()), np.array([True]), np.array([3, 4], np.float32)
    )


@pytest.mark.parametrize("level", list(FeatureLevel), ids=lambda level: level.name)
def test_reported_feature_level(level: FeatureLevel, reach: Reach) -> None:
    device = SampleDevice("level")
    device.feature_level = level
    assert reach(device).feature_level is level


@sweep(
    ("number", "expected"),
    [
        (27, FeatureLevel.LEVEL_1),
        (32, FeatureLevel.LEVEL_5),
        (1000008, FeatureLevel.LEVEL_8),
        (1000009, FeatureLevel.LEVEL_8),
        (2**31 - 2, FeatureLevel.LEVEL_8),
        (2**31 - 1, FeatureLevel.EXPERIMENTAL),
        (26, None),
        (0, None),
        (-1, None),
    ],
)
def test_a_driver_that_is_newer_than_the_runtime(number: int, expected: FeatureLevel | None) -> None:
    message = device_pb2.DescribeReply()
    message.CopyFrom(description_to_wire(SampleDevice("newer")))
    message.feature_level = number  # type: ignore[assignment]
    if expected is None:
        with pytest.raises(BadData, match="feature level"):
            description_from_wire(message)
    else:
        assert description_from_wire(message).feature_level is expected


def test_a_device_is_opened_in_this_process() -> None:
    device = nd.open_device("sample-all")
    assert (device.name, device.is_remote) == ("sample-all", False)
    assert device.name not in {each.name for each in nd.devices()}
    compilation = compiled(add_model((2,)), device)
    np.testing.assert_array_equal(compilation.run(np.ones(2, np.float32), np.ones(2, np.float32))[0], [2, 2])
    assert nd.open_device("cpu") is nd.devices()[0]
    for wrong, code in (
        ("absent", Code.UNAVAILABLE_DEVICE),
        ("no driver:", Code.BAD_DATA),
        (None, Code.BAD_DATA),
    ):
        assert error_code(nd.open_device, wrong) is code


def test_devices_for_which_there_is_no_thread_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_threads(monkeypatch)
    first, second = run_concurrently([lambda: 1, lambda: 2])
    for found in (first, second):
        assert isinstance(found, Error)
        assert (found.code, str(found)) == (
            Code.RESOURCE_EXHAUSTED_TRANSIENT,
            "a device cannot be asked: can't start new thread",
        )
