"""Measures the costs of a device with small models, through the interface that every driver has.

Three things are measured: the launch, by a model of one element; the link, by a model that only
moves data; and operations, by models of one kind of operation each, in up to three sizes. From the
time of an operation's model the launch and the transfers are subtracted, unless the driver reports
the time on its device. Times of kernels count before that of the whole run, which may include
transfers between host and device; processors have none.

Other programs only make runs longer, so low times count: of a turn the lower quartile of its runs,
and of all turns the lowest that others repeat. Models take their turns one after another, so that a
disturbance does not hit all turns of one of them, and those whose lowest turns do not agree have
more.

Another virtual machine on the same core of a processor makes some operations take twice as long for
ten seconds, unseen by this one. So one of the models is a gauge: it runs between all turns, and
models have more turns until it was undisturbed beside their lowest ones. And turns are spread over
a longer time, unless an earlier calibration found the same; over a still longer one if many
operations take longer than then.

The memory that they read and write is written before: reading pages that never were, which
are all the same page of zeros, takes half as long. Which lines of a cache the pages of a memory
share is a matter of luck that stays with them, and decides about a tenth of the time of operations
that only move data; so turns take several memories in turns.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, field

from neurald.hal.device import Device, ExecuteOptions, PreparedModel, PrepareOptions, Timing
from neurald.hal.errors import Error, OpFailed, copied
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import DeviceType, Preference
from neurald.runtime.costs.micro_models import MicroModel, micro_models, moving_models
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import kind_of, work_of
from neurald.runtime.devices.driver_faults import convert_driver_faults

#: How often each model runs for a moment, if there is the time.
_TURNS: Final = 12
_MIN_TURN_S: Final = 2e-3
_MIN_RUNS: Final = 4
_MAX_RUNS: Final = 64
#: A size whose smaller one already took this long is left out.
_MAX_RUN_S: Final = 0.1
#: Models that take longer than this have one in this many turns.
_LONG_RUN_S: Final = 0.01
_LONG_PAUSE: Final = 4
#: A time is settled if this many turns were at most this much longer than the shortest one, and
#: enough of these were undisturbed.
_LOWEST: Final = 3
_AGREEMENT: Final = 1.03
#: Turns are undisturbed if the time of the gauge beside them was at most this much longer than its
#: shortest one; this many suffice.
_MIN_UNDISTURBED: Final = 2
_UNDISTURBED: Final = 1.08
#: The gauge is the longest model of products that takes no longer than this.
_MAX_GAUGE_S: Final = 2e-4
_GAUGE_RUNS: Final = 3
#: Turns are spread over this time at least: other programs often disturb for seconds.
_MIN_S: Final = 4.0
#: The same without an earlier calibration, and if many operations take longer than in that one. All
#: models have a turn every so often then.
_SPREAD_S: Final = 16.0
_DOUBT_S: Final = 32.0
_ROUND_PAUSE_S: Final = 0.25
#: An operation takes longer than before if it takes this much of what it took; this many of them
#: are many.
_LONGER: Final = 1.1
_MANY: Final = 0.1
#: How long models whose times are not settled have further turns.
_MAX_MORE_S: Final = 10.0
#: How many pairs of memories there are for the inputs and outputs of all models, which turns use in
#: turns, and how large each is: no model needs more.
_MEMORIES: Final = 5
_MEMORY_BYTES: Final = 4 << 20
#: Memory is where that of applications mostly is: at the start of a page.
_PAGE_BYTES: Final = 4096
#: The byte that fills it; four of them are 0.75 as float32.
_CONTENT: Final = b"\x3f"
#: The elements of the models that move data, for the slope between them.
_MOVED: Final = (1 << 14, 1 << 20)
#: An operation is only measured if it takes this share of its run: times differ by some percent,
#: and those of a difference by so much more.
_MIN_SHARE: Final = 0.3
#: A link that is faster than this copies nothing.
_MEMORY_BYTES_PER_S: Final = 2e11

#: Called with how much is done, and the total.
Progress = Callable[[int, int], None]


class LowTimes(Struct, kw_only=True):
    """The lowest times of the turns of a model.

    Attributes:
        turns: their times, ascending, each with that of the gauge beside it.
    """

    turns: list[tuple[float, float]] = field(default_factory=list)

    def add(self, runs_s: Sequence[float], gauge_s: float = 0.0) -> None:
        """Adds a turn, by the times of its runs; one in four is lower than what counts."""
        self.turns = sorted([*self.turns, (sorted(runs_s)[len(runs_s) // 4], gauge_s)])[:_LOWEST]

    def is_settled(self, gauge_s: float = 0.0) -> bool:
        """Returns whether several turns were as short as the shortest, not all disturbed.

        Args:
            gauge_s: the lowest time of the gauge.
        """
        if len(self.turns) < _LOWEST or self.turns[-1][0] > _AGREEMENT * self.turns[0][0]:
            return False
        return sum(beside_s <= _UNDISTURBED * gauge_s for _, beside_s in self.turns) >= _MIN_UNDISTURBED

    @property
    def value(self) -> float:
        """The lowest time that is not that of a single turn."""
        return self.turns[min(1, len(self.turns) - 1)][0]


class _Run(Struct, kw_only=True):
    """A model that is ready to run, and its times.

    Attributes:
        requests: the same in several memories.
        turns: how many there were.
        called: times of calls.
        on_device: times that the driver reports; None if it does not.
        kernels: sums of the times of all kernels, if they are asked for; None if there are none.
    """

    micro: MicroModel
    prepared: PreparedModel
    requests: Sequence[Request]
    turns: int = 0
    called: LowTimes = field(default_factory=LowTimes)
    on_device: LowTimes | None = field(default_factory=LowTimes)
    kernels: LowTimes | None = None

    def take_turn(self, gauge: "_Gauge | None" = None) -> None:
        """Runs it for a moment, and the gauge afterwards."""
        options = ExecuteOptions(measure=True)
        request = self.requests[self.turns % len(self.requests)]
        self.turns += 1
        called_s: list[float] = []
        on_device_s: list[float] = []
        started = now = time.perf_counter()
        while not _is_over(called_s, now - started):
            before = now
            timing: Timing = self.prepared.execute(request, options).timing
            now = time.perf_counter()
            called_s.append(now - before)
            if timing.on_device_ns is not None:
                on_device_s.append(timing.on_device_ns / 1e9)
        kernels_s = [] if self.kernels is None else self._profile()
        gauge_s = math.inf if gauge is None else gauge.beside_s()
        self.called.add(called_s, gauge_s)
        if self.on_device is not None and len(on_device_s) == len(called_s):
            self.on_device.add(on_device_s, gauge_s)
        else:
            self.on_device = None
        if self.kernels is not None and kernels_s:
            self.kernels.add(kernels_s, gauge_s)
        else:
            self.kernels = None

    def _profile(self) -> list[float]:
        """Returns the times of the kernels of some runs; nothing if they are not known."""
        kernels_s: list[float] = []
        started = time.perf_counter()
        while not _is_over(kernels_s, time.perf_counter() - started):
            duration_ns = sum(each.duration_ns for each in self.prepared.profile() if not each.is_copy)
            if not duration_ns:
                return []
            kernels_s.append(duration_ns / 1e9)
        return kernels_s

    def is_settled(self, gauge: "_Gauge") -> bool:
        """Returns whether more turns would change little."""
        times = self.called if self._computing is None else self._computing
        # Of a few turns, three may agree by chance.
        return self.turns >= _TURNS and times.is_settled(gauge.lowest_s)

    @property
    def is_product(self) -> bool:
        """True if it mostly multiplies, which a disturbance slows down most."""
        graph = self.micro.model.main
        return kind_of(graph, graph.operations[0]).is_product

    @property
    def computing_s(self) -> float | None:
        """The time without transfers, as far as it is known."""
        return None if self._computing is None else self._computing.value

    @property
    def _computing(self) -> LowTimes | None:
        return self.on_device if self.kernels is None else self.kernels


class _Gauge:
    """A model that shows whether the device is disturbed at the moment, since it takes longer then.

    Args:
        runs: the runs of all models, one of which it is. Without one that is short, there is no
            gauge.

    Attributes:
        lowest_s: its shortest time so far; 0 without a gauge.
    """

    def __init__(self, runs: Sequence[_Run]) -> None:
        short = [run for run in runs if run.called.value <= _MAX_GAUGE_S]
        self._run = max(short, key=lambda run: (run.is_product, run.called.value), default=None)
        self.lowest_s = 0.0
        self._latest_s = 0.0

    def beside_s(self) -> float:
        """Returns how long it took, before and after what was done since the last call."""
        run, before_s = self._run, self._latest_s
        if run is None:
            return 0.0
        options, request = ExecuteOptions(), run.requests[0]
        self._latest_s = math.inf
        for _ in range(_GAUGE_RUNS):
            started_s = time.perf_counter()
            run.prepared.execute(request, options)
            self._latest_s = min(self._latest_s, time.perf_counter() - started_s)
        self.lowest_s = min(self.lowest_s or math.inf, self._latest_s)
        return max(before_s, self._latest_s)


def _is_over(runs_s: Sequence[float], passed_s: float) -> bool:
    """Returns whether a turn with these runs has been long enough."""
    is_enough = len(runs_s) >= _MAX_RUNS or (len(runs_s) >= _MIN_RUNS and passed_s >= _MIN_TURN_S)
    return is_enough or (bool(runs_s) and passed_s > _MAX_RUN_S)


def calibrate(
    device: Device, progress: Progress = lambda done, total: None, earlier: CostTable | None = None
) -> CostTable:
    """Measures a device. Takes some seconds.

    Args:
        device: any device; its driver may be of a third party.
        progress: the function that is called from time to time.
        earlier: what an earlier calibration found.

    Raises:
        Error: the device cannot even run a model of one element, or supports none of them.
    """
    with convert_driver_faults(device.name):
        if (measure := getattr(device, "measure", None)) is not None:
            measure()
        memories = _Memories(device)
        moving = _moving_runs(device, memories)
        kinds = list(micro_models())
        computing: list[_Run] = []
        for done, (_, _, builders) in enumerate(kinds, start=1):
            computing += _runs(device, builders, memories)
            progress(done, 2 * len(kinds))
        _take_turns(
            [*moving, *computing],
            lambda share: progress(int((1 + share) * len(kinds)), 2 * len(kinds)),
            lambda: _spread_s(_table(device, moving, computing), earlier),
        )
    return _table(device, moving, computing)


def _table(device: Device, moving: Sequence["_Run"], computing: Sequence["_Run"]) -> CostTable:
    """Returns the costs that follow from the times of all models so far."""
    table = _with_link(device, moving)
    for run in computing:
        table = _with_times(table, run)
    return table


def _spread_s(table: CostTable, earlier: CostTable | None) -> float:
    """Returns over how much time turns are to be spread, judging by what was measured so far."""
    ratios = [
        average.seconds / before.seconds
        for kind, bands in table.rates.items()
        for band, average in bands.items()
        if earlier is not None and (before := earlier.rates.get(kind, {}).get(band)) is not None
    ]
    if not ratios:
        return _SPREAD_S
    longer = sum(ratio > _LONGER for ratio in ratios)
    return _DOUBT_S if longer > _MANY * len(ratios) else _MIN_S


def _take_turns(
    runs: Sequence[_Run], progress: Callable[[float], None], spread_s: Callable[[], float]
) -> None:
    """Runs models in turns until their times are settled, or for long enough.

    Args:
        runs: each has had its first turn.
        progress: the function that is called with the share of the turns that all have.
        spread_s: returns over how much time turns are to be spread.
    """
    gauge = _Gauge(runs)
    started_s = time.perf_counter()
    turn, passed_s = 1, 0.0

    def take_round() -> float:
        nonlocal turn
        for run in runs:
            if run.called.value < _LONG_RUN_S or turn % _LONG_PAUSE == 0:
                run.take_turn(gauge)
        turn += 1
        return time.perf_counter() - started_s

    while turn < _TURNS or passed_s < _MIN_S:
        passed_s = take_round()
        progress(min(1.0, turn / _TURNS, passed_s / _SPREAD_S))
    while passed_s < spread_s():
        time.sleep(_ROUND_PAUSE_S)
        passed_s = take_round()
        progress(min(1.0, passed_s / _SPREAD_S))
    end_s = time.perf_counter() + _MAX_MORE_S
    while time.perf_counter() < end_s and (left := [run for run in runs if not run.is_settled(gauge)]):
        for run in left:
            run.take_turn(gauge)
    progress(1.0)


def _runs(device: Device, builders: Sequence[Callable[[], MicroModel]], memories: "_Memories") -> list[_Run]:
    """Returns models of a kind of operation, if the device supports it and they are short."""
    runs: list[_Run] = []
    for build in builders:
        micro = build()
        if not runs and not _supports(device, micro.model):
            break
        try:
            runs.append(_prepared(device, micro, memories))
        except Error:
            break  # it claims more than it can; its step would go to the CPU device
        if runs[-1].called.value > _MAX_RUN_S:
            break
    return runs


def _moving_runs(device: Device, memories: "_Memories") -> list[_Run]:
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
            return [_prepared(device, micro, memories) for micro in models]
        except Error as error:
            failure = failure if is_tried else error.with_traceback(None)
            is_tried = True
    raise copied(failure)


def _with_link(device: Device, moving: Sequence[_Run]) -> CostTable:
    """Returns a table of the launch and of the link, from models that only move data.

    The time that the device itself needs for moving, if it reports that, is not the link's. A
    processor copies nothing in its own process.
    """
    is_host = device.type is DeviceType.CPU and not device.is_remote
    launch_s, small_s, large_s = (run.called.value - (run.computing_s or 0.0) for run in moving)
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


def _with_times(table: CostTable, run: _Run) -> CostTable:
    """Returns the table with the time of a model's operations, unless a launch hides it."""
    micro = run.micro
    graph = micro.model.main
    seconds = run.computing_s
    if seconds is None:
        launch_s = table.launch.seconds if table.launch else 0.0
        link = table.link or DeviceLink()
        moving_s = micro.input_bytes / link.input_bytes_per_s + micro.output_bytes / link.output_bytes_per_s
        seconds = run.called.value - launch_s - moving_s
        if seconds < _MIN_SHARE * run.called.value:
            return table
    share = seconds / len(graph.operations)
    return table.observed(kind_of(graph, graph.operations[0]), work_of(graph, graph.operations[0]), share)


def _supports(device: Device, model: Model) -> bool:
    return all(verdict.ok for verdict in device.supported_operations(model))


def _prepared(device: Device, micro: MicroModel, memories: "_Memories") -> _Run:
    """Prepares a model, and gives it a first turn."""
    is_processor = device.type is DeviceType.CPU
    # Other drivers may measure kernels for minutes if an answer is to be fast.
    preference = PrepareOptions().preference if is_processor else Preference.LOW_POWER
    prepared = device.prepare_model(micro.model, PrepareOptions(preference=preference))
    requests = memories.requests(micro)
    for request in requests:
        prepared.execute(request, ExecuteOptions())
    # Processors copy nothing.
    kernels = None if is_processor else LowTimes()
    run = _Run(micro=micro, prepared=prepared, requests=requests, kernels=kernels)
    run.take_turn()
    return run


class _Memories:
    """The memories of all models, whose pages exist.

    Args:
        device: one in this process uses parts of the same memories for all models; another one gets
            a memory of the right size for each, since it may copy whole ones.
    """

    def __init__(self, device: Device) -> None:
        self._pairs: list[tuple[memoryview, memoryview]] = []
        if not device.is_remote:
            self._pairs = [(_written(_MEMORY_BYTES), _written(_MEMORY_BYTES)) for _ in range(_MEMORIES)]

    def requests(self, micro: MicroModel) -> list[Request]:
        """Returns requests for a model that differ in their memories."""
        sizes = micro.input_bytes, micro.output_bytes
        pools: list[tuple[Memory, ...]] = [
            tuple(HostMemory(part[: max(1, size)]) for part, size in zip(pair, sizes, strict=True))
            for pair in self._pairs
        ]
        return [
            Request(
                inputs=(Argument(pool=0, length=micro.input_bytes),),
                outputs=(Argument(pool=1, length=micro.output_bytes),),
                pools=each,
            )
            for each in pools or [tuple(map(_shared, sizes))]
        ]


def _shared(size: int) -> Memory:
    memory = SharedMemory.working(max(1, size))
    memory.view()[:] = memory.size * _CONTENT
    return memory


def _written(size: int) -> memoryview:
    view = aligned_zeros(size, _PAGE_BYTES).data
    view[:] = size * _CONTENT
    return view
