"""Calibration of devices whose speed is known."""

import itertools
import random
from collections.abc import Callable

import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import FailingDevice
from support.devices.simulated import SimulatedDevice

import neurald as nd
from neurald.drivers.sample.device import create_quant
from neurald.hal.device import (
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    PreparedModel,
    PrepareOptions,
    Timing,
)
from neurald.hal.errors import OpFailed
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.model.types import DeviceType
from neurald.runtime.costs import calibration
from neurald.runtime.costs.calibration import LowTimes, calibrate
from neurald.runtime.costs.table import CostTable
from neurald.runtime.costs.work import OperationKind


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_TURNS", 3)
    monkeypatch.setattr(calibration, "_MIN_RUNS", 1)
    monkeypatch.setattr(calibration, "_MIN_TURN_S", 0.0)
    monkeypatch.setattr(calibration, "_MIN_S", 1e-9)
    monkeypatch.setattr(calibration, "_SPREAD_S", 1e-9)
    monkeypatch.setattr(calibration, "_MAX_MORE_S", 0.5)


@pytest.mark.timed
def test_a_device_of_known_speed_is_measured() -> None:
    supported = (nd.OperationType.ADD, nd.OperationType.RESHAPE, nd.OperationType.RELU)
    device = SimulatedDevice(
        "known",
        seconds={nd.OperationType.ADD: 0.04, nd.OperationType.RELU: 0.08},
        launch_s=0.02,
        bytes_per_s=2e8,
        supports=supported.__contains__,
    )
    shown: list[tuple[int, int]] = []
    table = calibrate(device, lambda done, total: shown.append((done, total)))
    assert shown[-1][0] == shown[-1][1]
    assert table.launch is not None
    assert table.link is not None
    assert table.launch.seconds == pytest.approx(0.02, rel=0.3)
    assert table.link.input_bytes_per_s == pytest.approx(2e8, rel=0.3)
    assert not table.link.shares_memory
    assert {kind.operation for kind in table.rates} == {"ADD", "RELU"}
    for operation, expected in (("ADD", 0.04), ("RELU", 0.08)):
        kind = OperationKind(operation=operation, operand="TENSOR_FLOAT32")
        found = table.seconds(kind, 16.0 * 2 * 16**3)
        assert found is not None
        assert found[0] == pytest.approx(expected, rel=0.4)


class _Clock:
    """Stands for the module `time`, in which only devices take any."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class _Simulated(SimulatedDevice):
    """A device that takes time on a clock only, and that other programs interrupt."""

    def __init__(self, clock: _Clock, interruption_s: Callable[[float], float]) -> None:
        super().__init__(
            "interrupted",
            seconds={nd.OperationType.ADD: 0.005},
            launch_s=0.0005,
            supports=(nd.OperationType.ADD, nd.OperationType.RESHAPE).__contains__,
        )
        self._clock = clock
        self._interruption_s = interruption_s

    def run(self, model: Model, request: Request, compute: Callable[[], ExecutionResult]) -> ExecutionResult:
        duration_s = self.duration_s(model, request)
        self.executions += 1
        self._clock.now_s += duration_s + self._interruption_s(duration_s)
        return compute()


def _addition_s(device: SimulatedDevice, earlier: CostTable | None = None) -> float:
    """Returns the measured time of the smallest addition."""
    return _cost_s(calibrate(device, earlier=earlier))


def _cost_s(table: CostTable) -> float:
    kind = OperationKind(operation="ADD", operand="TENSOR_FLOAT32")
    found = table.seconds(kind, 16.0 * 2 * 16**3)
    assert found is not None
    return found[0]


def test_other_programs_do_not_make_a_device_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three runs are interrupted, in each turn."""
    clock = _Clock()
    monkeypatch.setattr(calibration, "time", clock)
    monkeypatch.setattr(calibration, "_MIN_RUNS", 6)
    runs = itertools.count()
    device = _Simulated(clock, lambda _: 0.003 if next(runs) % 3 else 0.0)
    assert _addition_s(device) == pytest.approx(0.005)


def test_calibrations_agree_although_other_programs_run_most_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In four fifths of the time the device takes 1.2 to 3 times as long, differently each moment.

    A few turns, or the mean of many, would give any of these times.
    """
    _as_it_is(monkeypatch)

    def calibrated(seed: int) -> float:
        clock = _Clock()
        monkeypatch.setattr(calibration, "time", clock)
        chance = random.Random(seed)
        change_s, factor = 0.0, 0.0

        def interruption_s(duration_s: float) -> float:
            nonlocal change_s, factor
            while change_s <= clock.now_s - 1000.0:
                factor = chance.uniform(0.2, 2.0) if chance.random() < 0.8 else 0.0
                change_s += chance.expovariate(1 / 0.15)
            noise_s = chance.uniform(0, 0.04) * duration_s + (0.05 if chance.random() < 0.1 else 0.0)
            return noise_s + factor * duration_s

        return _addition_s(_Simulated(clock, interruption_s))

    found = [calibrated(seed) for seed in range(8)]
    assert max(found) < 1.1 * min(found)
    assert found == pytest.approx([0.005] * len(found), rel=0.1)


def _as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has calibrations take as long as those of users do."""
    for name, value in (
        ("_TURNS", 12),
        ("_MIN_RUNS", 4),
        ("_MIN_S", 4.0),
        ("_SPREAD_S", 16.0),
        ("_ROUND_PAUSE_S", 1.0),
        ("_MAX_MORE_S", 10.0),
    ):
        monkeypatch.setattr(calibration, name, value)


@pytest.mark.parametrize("begin_s", [0.0, 2.0, 5.0, 8.0])
def test_a_neighbour_that_disturbs_for_ten_seconds_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, begin_s: float
) -> None:
    """Another virtual machine on the same core slows this one, which does not see why."""
    _as_it_is(monkeypatch)
    clock = _Clock()
    monkeypatch.setattr(calibration, "time", clock)

    def interruption_s(duration_s: float) -> float:
        return duration_s if begin_s <= clock.now_s - 1000.0 < begin_s + 10.0 else 0.0

    assert _addition_s(_Simulated(clock, interruption_s)) == pytest.approx(0.005, rel=0.02)


def test_earlier_calibrations_tell_whether_a_device_is_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    _as_it_is(monkeypatch)
    clock = _Clock()
    monkeypatch.setattr(calibration, "time", clock)
    earlier = calibrate(_Simulated(clock, lambda _: 0.0))
    assert _cost_s(earlier) == pytest.approx(0.005)
    # What was found before is found again at once.
    begun_s = clock.now_s
    assert _addition_s(_Simulated(clock, lambda _: 0.0), earlier) == pytest.approx(0.005)
    assert clock.now_s - begun_s < 8.0
    # A longer time is doubted.
    begun_s = clock.now_s
    disturbed = _Simulated(clock, lambda duration_s: duration_s if clock.now_s - begun_s < 25.0 else 0.0)
    assert _addition_s(disturbed, earlier) == pytest.approx(0.005, rel=0.02)
    # And believed in the end.
    slower = _Simulated(clock, lambda duration_s: duration_s)
    assert _addition_s(slower, earlier) == pytest.approx(0.01, rel=0.02)


def test_times_that_agree_do_not_count_if_the_gauge_was_disturbed_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operation is disturbed in its first turns, in which its times agree."""
    monkeypatch.setattr(calibration, "_TURNS", 12)
    clock = _Clock()
    monkeypatch.setattr(calibration, "time", clock)
    runs: list[calibration._Run] = []
    take_turn = calibration._Run.take_turn

    def noting(run: calibration._Run, gauge: calibration._Gauge | None = None) -> None:
        is_addition = run.micro.model.main.operations[0].type is nd.OperationType.ADD
        runs.append(run)
        device.slowness = 2.0 if is_addition and run.turns < 20 else 1.0
        take_turn(run, gauge)
        device.slowness = 1.0

    monkeypatch.setattr(calibration._Run, "take_turn", noting)
    device = _Simulated(clock, lambda _: 0.0)
    device.seconds, device.launch_s = {nd.OperationType.ADD: 1e-3}, 1e-5
    assert _addition_s(device) == pytest.approx(1e-3, rel=0.02)


def test_a_time_counts_that_several_turns_had() -> None:
    times = LowTimes()
    times.add([5.0, 4.0, 9.0, 8.0])
    assert not times.is_settled()
    assert times.value == 5.0
    times.add([1.0])
    times.add([5.1])
    assert not times.is_settled()
    assert times.value == 5.0
    times.add([1.02])
    times.add([7.0])
    assert not times.is_settled()
    times.add([1.01])
    assert times.is_settled()
    assert times.value == 1.01


def test_models_whose_times_do_not_agree_have_more_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those, and not without end."""
    clock = _Clock()
    monkeypatch.setattr(calibration, "time", clock)
    turns = itertools.count()
    steady = _Simulated(clock, lambda _: 0.0)
    _addition_s(steady)
    growing = _Simulated(clock, lambda duration_s: duration_s / (1 + next(turns)))
    started_s = clock.now_s
    _addition_s(growing)
    assert growing.executions > steady.executions
    assert clock.now_s - started_s < 2 * calibration._MAX_MORE_S


def test_memory_of_models_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that were never written are one page, which is read from the nearest cache."""
    contents: list[bytes] = []

    class Recording(SimulatedDevice):
        def run(
            self, model: Model, request: Request, compute: Callable[[], ExecutionResult]
        ) -> ExecutionResult:
            contents.extend(bytes(memory.view()[:1]) for memory in request.pools[:1])
            return compute()

    calibrate(Recording("recording", supports=(nd.OperationType.RELU,).__contains__))
    assert contents
    assert b"\0" not in contents


class _Profiled(FakePreparedModel):
    """Model whose run takes 2 ms, of which a kernel takes 0.5 ms, as a device may report it."""

    def __init__(self, asked: list[int]) -> None:
        self._asked = asked

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        return ExecutionResult(output_shapes=(), timing=Timing(on_device_ns=2_000_000))

    def profile(self) -> tuple[KernelTime, ...]:
        self._asked.append(1)
        return (KernelTime(name="k", duration_ns=500_000, operations=(0,)),)


def test_times_of_kernels_count_before_those_of_runs() -> None:
    """Those of a GPU, whose runs include transfers, and which is not asked to tune small models."""
    asked: list[int] = []

    class Gpu(SimulatedDevice):
        type = DeviceType.GPU

        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
            assert options.preference is nd.Preference.LOW_POWER
            return _Profiled(asked)

    table = calibrate(Gpu("gpu", supports=(nd.OperationType.ADD,).__contains__))
    kind = OperationKind(operation="ADD", operand="TENSOR_FLOAT32")
    found = table.seconds(kind, 16.0 * 2 * 16**3)
    assert found is not None
    assert found[0] == pytest.approx(5e-4)
    assert asked


def test_the_cpu_device_copies_nothing() -> None:
    table = calibrate(nd.devices()[0])
    assert table.link is not None
    assert table.link.shares_memory
    assert len(table.rates) == 22


def test_a_device_for_8_bits_only_is_measured() -> None:
    table = calibrate(create_quant())
    assert table.launch is not None
    assert table.link is not None
    assert table.rates
    assert {kind.operand for kind in table.rates} == {"TENSOR_QUANT8_ASYMM_SIGNED"}


def test_a_device_for_convolutions_only_is_measured() -> None:
    supported = (nd.OperationType.CONV_2D,).__contains__
    table = calibrate(SimulatedDevice("convolutions", launch_s=0.001, supports=supported))
    assert table.launch is not None
    assert table.launch.seconds >= 0.001


def test_a_device_without_a_known_operation_is_an_error() -> None:
    with pytest.raises(OpFailed, match="unknown supports no operation that could tell"):
        calibrate(SimulatedDevice("unknown", supports=(nd.OperationType.TANH,).__contains__))


def test_a_device_that_runs_nothing_is_an_error() -> None:
    with pytest.raises(OpFailed, match="broken"):
        calibrate(FailingDevice(error=OpFailed("broken")))


def test_faults_of_a_driver_are_errors() -> None:
    class Faulty(SimulatedDevice):
        def supported_operations(self, model: nd.Model):  # type: ignore[no-untyped-def]
            raise ValueError("a fault")

    with pytest.raises(OpFailed, match="a fault"):
        calibrate(Faulty("faulty"))
