"""Measures the costs of a device with small models, through the interface that every driver has.

Three things are measured: the launch, by a model of one element; the link, by a model that only
moves data; and operations, by models of one kind of operation each, in up to three sizes. From the
time of an operation's model the launch and the transfers are subtracted, unless the driver reports
the time on its device. Times of kernels count before that of the whole run, which may include
transfers between host and device; processors have none. Models are run in turns, so that a
disturbance does not hit all runs of one of them. Of a turn the median run counts, and of all turns
the shortest: other programs only make runs longer.
"""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from neurald.hal.device import Device, ExecuteOptions, PreparedModel, PrepareOptions, Timing
from neurald.hal.errors import Error, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory, aligned_zeros
from neurald.hal.model.types import Argument, DeviceType, Model, Preference, Request
from neurald.runtime.costs.micro_models import MicroModel, micro_models, moving_models
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import kind_of, work_of
from neurald.runtime.devices.driver_faults import convert_driver_faults

#: How often each model runs for a moment.
_TURNS: Final = 12
_MIN_TURN_S: Final = 2e-3
_MIN_RUNS: Final = 3
_MAX_RUNS: Final = 64
#: A size whose smaller one already took so long is left out.
_MAX_RUN_S: Final = 0.1
#: Models that take longer than this have fewer turns.
_LONG_RUN_S: Final = 0.01
_LONG_TURNS: Final = 3
#: In how many turns the times of kernels are asked for, which vary little.
_PROFILED_TURNS: Final = 3
#: The elements of the models that move data, for the slope between them.
_MOVED: Final = (1 << 14, 1 << 20)
#: An operation is only measured if it takes this share of its run, so that it is not noise.
_MIN_SHARE: Final = 0.15
#: A link that is faster than this copies nothing.
_MEMORY_BYTES_PER_S: Final = 2e11

#: Called with how much is done: the number of models that ran, and their total.
Progress = Callable[[int, int], None]


class _Run(Struct, frozen=True, kw_only=True):
    """A model that is ready to run, and its shortest times.

    Attributes:
        is_profiled: whether times of kernels are asked for.
    """

    micro: MicroModel
    prepared: PreparedModel
    request: Request
    shortest: "Shortest"
    is_profiled: bool

    def take_turn(self, turn: int) -> None:
        """Runs it for a moment.

        Args:
            turn: the number of the turn, from 0.
        """
        options = ExecuteOptions(measure=True)
        called_s: list[float] = []
        on_device_s: list[float] = []
        started = now = time.perf_counter()
        while len(called_s) < _MIN_RUNS or (now - started < _MIN_TURN_S and len(called_s) < _MAX_RUNS):
            before = now
            timing: Timing = self.prepared.execute(self.request, options).timing
            now = time.perf_counter()
            called_s.append(now - before)
            if timing.on_device_ns is not None:
                on_device_s.append(timing.on_device_ns / 1e9)
            if now - started > _MAX_RUN_S:
                break
        is_reported = len(on_device_s) == len(called_s)
        self.shortest.add(median(called_s), median(on_device_s) if is_reported else None)
        if self.is_profiled and turn < _PROFILED_TURNS:
            kernels_ns = sum(each.duration_ns for each in self.prepared.profile() if not each.is_copy)
            if kernels_ns:
                self.shortest.add_kernels(kernels_ns / 1e9)


class Shortest(Struct, kw_only=True):
    """The shortest times of a model over some turns; on the device only if that is reported."""

    called_s: float = math.inf
    on_device_s: float | None = math.inf
    kernels_s: float | None = None

    def add(self, called_s: float, on_device_s: float | None) -> None:
        """Adds a turn."""
        self.called_s = min(self.called_s, called_s)
        known = self.on_device_s
        self.on_device_s = None if known is None or on_device_s is None else min(known, on_device_s)

    def add_kernels(self, seconds: float) -> None:
        """Adds the sum of the times of all kernels."""
        self.kernels_s = seconds if self.kernels_s is None else min(self.kernels_s, seconds)

    @property
    def computing_s(self) -> float | None:
        """The time without transfers, as far as it is known."""
        return self.on_device_s if self.kernels_s is None else self.kernels_s


def calibrate(device: Device, progress: Progress = lambda done, total: None) -> CostTable:
    """Measures a device. Takes some seconds.

    Args:
        device: any device; its driver may be of a third party.
        progress: is called from time to time.

    Raises:
        Error: the device cannot even run a model of one element, or supports none of them.
    """
    with convert_driver_faults(device.name):
        if (measure := getattr(device, "measure", None)) is not None:
            measure()
        moving = _moving_runs(device)
        kinds = list(micro_models())
        computing: list[_Run] = []
        for done, (_, _, builders) in enumerate(kinds, start=1):
            computing += _runs(device, builders)
            progress(done, len(kinds) * _TURNS)
        every = [*moving, *computing]
        for turn in range(1, _TURNS):
            for run in every:
                if turn < _LONG_TURNS or run.shortest.called_s < _LONG_RUN_S:
                    run.take_turn(turn)
            progress((turn + 1) * len(kinds), len(kinds) * _TURNS)
    table = _with_link(device, moving)
    for run in computing:
        table = _with_times(table, run.micro, run.shortest)
    return table


def _runs(device: Device, builders: Sequence[Callable[[], MicroModel]]) -> list[_Run]:
    """Returns the models of one kind of operation, if the device supports it and they are not too long."""
    runs: list[_Run] = []
    for build in builders:
        micro = build()
        if not runs and not _supports(device, micro.model):
            break
        try:
            runs.append(_prepared(device, micro))
        except Error:
            break  # it claims more than it can; its step would go to the CPU device
        if runs[-1].shortest.called_s > _MAX_RUN_S:
            break
    return runs


def _moving_runs(device: Device) -> list[_Run]:
    """Returns models that move data, of one, some and many elements, which the device can run."""
    failure: Error = OpFailed(
        f"{device.name} supports no operation that could tell how long it takes to move data: "
        "RESHAPE, ADD, RELU, LOGISTIC, MUL and CONV_2D were tried, with float32 and signed 8 bits"
    )
    is_tried = False
    for build in moving_models():
        models = [build(elements) for elements in (1, *_MOVED)]
        if not all(_supports(device, micro.model) for micro in models):
            continue
        try:
            return [_prepared(device, micro) for micro in models]
        except Error as error:
            failure = failure if is_tried else error
            is_tried = True
    raise failure


def _with_link(device: Device, moving: Sequence[_Run]) -> CostTable:
    """Returns a table of the launch and of the link, from models that only move data.

    What the device itself needs for moving, if it reports that, is not the link. A processor copies
    nothing in its own process.
    """
    is_host = device.type is DeviceType.CPU and not device.is_remote
    launch_s, small_s, large_s = (
        each.called_s - (each.computing_s or 0.0) for each in (run.shortest for run in moving)
    )
    small, large = (run.micro.input_bytes + run.micro.output_bytes for run in moving[1:])
    bytes_per_s = (large - small) / max(large_s - small_s, 1e-12)
    if is_host or bytes_per_s >= _MEMORY_BYTES_PER_S:
        bytes_per_s = math.inf
    return CostTable(
        launch=Average(seconds=max(launch_s, 1e-9), measurements=_TURNS),
        link=DeviceLink(
            latency_s=max(launch_s, 0.0) if device.is_remote else 0.0,
            input_bytes_per_s=bytes_per_s,
            output_bytes_per_s=bytes_per_s,
            shares_memory=not math.isfinite(bytes_per_s),
        ),
    )


def _with_times(table: CostTable, micro: MicroModel, shortest: Shortest) -> CostTable:
    """Returns the table with the time of one model's operations, unless it is lost in the launch."""
    graph = micro.model.main
    seconds = shortest.computing_s
    if seconds is None:
        launch_s = table.launch.seconds if table.launch else 0.0
        link = table.link or DeviceLink()
        moving_s = micro.input_bytes / link.input_bytes_per_s + micro.output_bytes / link.output_bytes_per_s
        seconds = shortest.called_s - launch_s - moving_s
        if seconds < _MIN_SHARE * shortest.called_s:
            return table
    share = seconds / len(graph.operations)
    return table.observed(kind_of(graph, graph.operations[0]), work_of(graph, graph.operations[0]), share)


def _supports(device: Device, model: Model) -> bool:
    return all(verdict.ok for verdict in device.supported_operations(model))


def _prepared(device: Device, micro: MicroModel) -> _Run:
    """Prepares a model, with memory for its input and output, and gives it a first turn."""
    is_processor = device.type is DeviceType.CPU
    # Other drivers may measure kernels for minutes if an answer is to be fast.
    preference = PrepareOptions().preference if is_processor else Preference.LOW_POWER
    prepared = device.prepare_model(micro.model, PrepareOptions(preference=preference))
    memory = [_memory(device, max(1, size)) for size in (micro.input_bytes, micro.output_bytes)]
    request = Request(
        inputs=(Argument(pool=0, length=micro.input_bytes),),
        outputs=(Argument(pool=1, length=micro.output_bytes),),
        pools=tuple(memory),
    )
    prepared.execute(request, ExecuteOptions())
    run = _Run(
        micro=micro,
        prepared=prepared,
        request=request,
        shortest=Shortest(),
        is_profiled=not is_processor,
    )
    run.take_turn(0)
    return run


def _memory(device: Device, size: int) -> Memory:
    return SharedMemory.working(size) if device.is_remote else HostMemory(aligned_zeros(size))
