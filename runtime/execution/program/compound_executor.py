"""CompoundExecutor: runs a program of steps and jumps over several devices."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape
from neurald.hal.errors import BadData, Cancelled, MissedDeadlineTransient, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions, OperandType, byte_size, value_size
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import bind_operations, infer_shapes
from neurald.hal.wording import milliseconds
from neurald.runtime.execution.measurement.step_overhead import StepOverhead
from neurald.runtime.execution.measurement.step_pace import StepPace
from neurald.runtime.execution.program.loop_interpreter import Loops, condition_holds
from neurald.runtime.execution.program.overlapping_steps import OverlappingSteps
from neurald.runtime.execution.program.step_clock import StepClock
from neurald.runtime.execution.program.step_runner import STOPPED, Runner, naming_step, run_step
from neurald.runtime.execution.program.temporaries import (
    FixedRun,
    Temporaries,
    ValueStorage,
    Workspace,
    Workspaces,
    require_agreement,
)
from neurald.runtime.plan.plan import (
    CompoundBody,
    ExecutionStep,
    GotoStep,
    IfStep,
)
from neurald.runtime.plan.residency import Residence, residences

#: Number of input shape combinations per step whose output shapes are cached.
_SHAPE_CACHE_SIZE = 64
#: Number of requests that are cached for loops and repeated executions.
_REQUEST_CACHE_SIZE = 256

_TensorShapes: TypeAlias = tuple[tuple[int, ...] | None, ...]


class CompoundExecutor:
    """Implements `neurald.runtime.execution.program.executor.PlanExecutor` for several steps.

    Args:
        body: the body of the plan.
        outputs: number of outputs of the model.
    """

    def __init__(self, body: CompoundBody, outputs: int) -> None:
        self._body = body
        self._outputs = outputs
        self._residences = residences(body.program, body.values)
        self._workspaces = Workspaces(body, self._residences)
        self._host_copies = 0
        self._pace = StepPace(body.program, body.waits_for)
        self._overhead = StepOverhead(body)
        self._is_fixed = _is_fixed(body)
        self._shapes = {
            id(step): _StepShapes(step)
            for step in body.steps
            if any(value_size(operand.type, operand.dimensions) is None for operand in step.output_operands)
        }

    def execute(
        self, request: Request, options: ExecuteOptions, *, runner: Runner = run_step
    ) -> ExecutionResult:
        """See `PlanExecutor.execute`."""
        begin = self._overhead.begin()
        workspace = self._workspaces.acquire()
        fixed = workspace.fixed_run(request) if self._is_fixed else None
        if fixed is not None:
            again = _FixedRun(self._body, self._pace, options, runner, fixed.requests)
            again.run()
            self._workspaces.release(workspace)
            self._overhead.end(begin)
            return again.result(fixed.shapes)
        run = _ProgramRun(
            self._body, self._shapes, self._residences, self._pace, workspace, request, options, runner
        )
        run.run()
        self._host_copies += run.temporaries.host_copies
        run.temporaries.copy_back()
        shapes = run.temporaries.output_shapes(self._outputs)
        # Values that are copied to the host are copied again in each run.
        if self._is_fixed and not run.temporaries.insufficient and not run.temporaries.host_copies:
            workspace.keep_fixed_run(request, FixedRun(requests=run.requests, shapes=shapes))
        self._workspaces.release(workspace)
        self._overhead.end(begin)
        return run.result(shapes)

    @property
    def host_copies(self) -> int:
        """Number of values copied from a device to the host for a step on another device."""
        return self._host_copies


def _is_fixed(body: CompoundBody) -> bool:
    """Returns whether all runs for one request of the client have the same requests for the steps.

    They do if the sizes of all results are known, and nothing is copied to other memory.
    """
    if body.shares_memory or any(not isinstance(step, ExecutionStep) for step in body.program):
        return False
    return all(
        value_size(operand.type, operand.dimensions) is not None
        for step in body.steps
        for operand in step.output_operands
    )


class _Run:
    """One execution of a compound plan.

    Attributes:
        clock: the clock of its steps.
    """

    def __init__(self, body: CompoundBody, pace: StepPace, options: ExecuteOptions, runner: Runner) -> None:
        self._program = body.program
        self._options = options
        self._runner = runner
        self.clock = StepClock(body.steps)
        self._waits_for = body.waits_for
        self._pace = pace
        #: The time that each step has to leave for those after it, by position.
        self._reserved_s = pace.after() if options.deadline_s is not None else None

    def result(self, shapes: tuple[OutputShape, ...]) -> ExecutionResult:
        """Returns the result of an execution whose outputs have these shapes."""
        if not self._options.measure:
            return ExecutionResult(output_shapes=shapes)
        return ExecutionResult(
            output_shapes=shapes, timing=self.clock.timing(), step_durations=self.clock.durations()
        )

    def _require_time(self, position: int, step: ExecutionStep, *, is_first: bool) -> None:
        cancellation, deadline_s = self._options.cancellation, self._options.deadline_s
        is_cancelled = cancellation is not None and cancellation.is_cancelled
        now_s = time.monotonic()
        is_late = deadline_s is not None and not is_first and now_s >= deadline_s
        needed_s = 0.0
        if deadline_s is not None and self._reserved_s is not None and not is_late:
            needed_s = self._reserved_s[position] + self._pace.shortest_s(position)
            is_late = needed_s > 0 and now_s + needed_s >= deadline_s
        if not is_cancelled and not is_late:
            return
        where = (
            f"before step {self.clock.number(step)} on {step.device.name}, at position {position} of the plan"
        )
        if is_cancelled:
            raise Cancelled(f"the execution was cancelled {where}")
        if deadline_s is not None and now_s < deadline_s:
            problem = (
                f"the deadline cannot be met: {milliseconds(deadline_s - now_s)} are left {where}, and "
                f"{milliseconds(needed_s)} are needed at least"
            )
        else:
            problem = f"the deadline passed {where}"
        raise MissedDeadlineTransient(f"{problem}{self._culprit()}; time so far: {self.clock.report()}")

    def _culprit(self) -> str:
        """Returns a clause about the step that took most time beyond what it takes at least."""
        found = self.clock.slowest(
            {
                id(step): self._pace.shortest_s(position)
                for position, step in enumerate(self._program)
                if isinstance(step, ExecutionStep)
            }
        )
        return "" if found is None else f"; {found} used up the time"

    def _limited(self, position: int) -> ExecuteOptions:
        """Returns the options of a step, which leaves enough time for those after it."""
        deadline_s = self._options.deadline_s
        if deadline_s is None or self._reserved_s is None or not self._reserved_s[position]:
            return self._options
        return replace(self._options, deadline_s=deadline_s - self._reserved_s[position])

    def _call(
        self, position: int, step: ExecutionStep, request: Request, options: ExecuteOptions
    ) -> ExecutionResult:
        """Runs a step once."""
        try:
            started = time.perf_counter()
            result = self.clock.run(step, request, options, self._runner)
            self._pace.record(position, time.perf_counter() - started)
        except STOPPED as error:
            named = naming_step(error, self.clock.number(step), step)
            raise type(named)(f"{named}; time so far: {self.clock.report()}") from None
        return result


class _FixedRun(_Run):
    """An execution whose steps have the same requests as in an earlier one.

    Args:
        body, pace, options, runner: see `_Run`.
        requests: by position, the request of each step.
    """

    def __init__(
        self,
        body: CompoundBody,
        pace: StepPace,
        options: ExecuteOptions,
        runner: Runner,
        requests: Sequence[Request],
    ) -> None:
        super().__init__(body, pace, options, runner)
        self._requests = requests

    def run(self) -> None:
        """Runs all steps."""
        if self._waits_for:
            OverlappingSteps(self._waits_for, self._execute, lambda: False, lambda: None).run()
        else:
            for position in range(len(self._program)):
                self._execute(position)

    def _execute(self, position: int) -> None:
        step = self._program[position]
        assert isinstance(step, ExecutionStep)  # noqa: S101 - there is no control flow
        options = self._options
        if options.deadline_s is not None or options.cancellation is not None:
            is_first = not self._waits_for[position] if self._waits_for else not position
            self._require_time(position, step, is_first=is_first)
            options = self._limited(position)
        result = self._call(position, step, self._requests[position], options)
        if not result.is_sufficient:
            raise OpFailed(
                f"device {step.device.name} reports that memory of the declared size is too small for "
                f"an output of step {self.clock.number(step)}"
            )


class _ProgramRun(_Run):
    """An execution that finds out where values are, and how large they are.

    Args:
        body, pace, options, runner: see `_Run`.
        shapes: infers output shapes of steps, by their ids.
        residences: the residences of values that stay on devices.
        workspace: the workspace for its exclusive use.
        request: the request of the client.

    Attributes:
        temporaries: the storage of all values.
        requests: the requests of the steps, by position, as they were made last.
    """

    def __init__(
        self,
        body: CompoundBody,
        shapes: dict[int, "_StepShapes"],
        residences: Mapping[int, Residence],
        pace: StepPace,
        workspace: Workspace,
        request: Request,
        options: ExecuteOptions,
        runner: Runner,
    ) -> None:
        super().__init__(body, pace, options, runner)
        self._values = body.values
        self._shapes = shapes
        self._residences = residences
        self.temporaries = Temporaries(body, request, workspace)
        self._known = workspace.requests_of(request)
        self.requests: list[Request] = [request] * len(body.program)
        #: Protects the storage of values and the requests, which steps at the same time share.
        self._lock = threading.Lock()
        self._loops = Loops(self.temporaries, options.loop_timeout_s)

    def run(self) -> None:
        """Runs the program to its end."""
        if self._waits_for:
            self._run_overlapping()
            return
        position = 0
        is_first = True
        while position < len(self._program):
            step = self._program[position]
            if isinstance(step, ExecutionStep):
                self._require_time(position, step, is_first=is_first)
                is_first = False
                self._execute(position, step)
                position += 1
            elif isinstance(step, GotoStep):
                position = step.position
            elif isinstance(step, IfStep):
                is_true = condition_holds(self.temporaries.storage[step.condition], step)
                position = position + 1 if is_true else step.else_position
            else:
                position = self._loops.advance(position, step)

    def _run_overlapping(self) -> None:
        def execute(position: int) -> None:
            step = self._program[position]
            assert isinstance(step, ExecutionStep)  # noqa: S101 - there is no control flow
            self._require_time(position, step, is_first=not self._waits_for[position])
            self._execute(position, step)

        temporaries = self.temporaries
        OverlappingSteps(
            self._waits_for, execute, lambda: temporaries.has_abandoned, temporaries.replace_abandoned
        ).run()

    def _execute(self, position: int, step: ExecutionStep) -> None:
        """Runs a step, and repeats it with larger output buffers while one is too small."""
        options = self._limited(position)
        with self._lock:
            self._reserve(step)
        while True:
            with self._lock:
                request = self.requests[position] = self._request(step)
            result = self._call(position, step, request, options)
            if not self._waits_for:
                self.temporaries.replace_abandoned()
            outputs = list(zip(step.writes, result.output_shapes, strict=True))
            with self._lock:
                if result.is_sufficient:
                    for number, shape in outputs:
                        self.temporaries.record_written(number, shape)
                    return
                for number, shape in outputs:
                    if not shape.sufficient:
                        self.temporaries.grow(number, shape)

    def _reserve(self, step: ExecutionStep) -> None:
        """Reserves memory for the outputs of a step.

        An output of unknown size gets the memory that it had before, and at least one element.
        """
        inferred: _TensorShapes = (None,) * len(step.writes)
        shapes = self._shapes.get(id(step))
        if shapes is not None:
            storage = [self.temporaries.storage[number] for number in step.reads]
            inferred = shapes.outputs(tuple(None if p.memory is None else p.dimensions for p in storage))
        for number, operand, shape in zip(step.writes, step.output_operands, inferred, strict=True):
            declared = value_size(operand.type, operand.dimensions)
            if declared is None and shape is not None and operand.type is not OperandType.TENSOR_STRING:
                self.temporaries.reserve(number, byte_size(operand.type, shape))
            else:
                self.temporaries.reserve(number, declared)
            if declared is not None and declared > self.temporaries.storage[number].capacity:
                too_small = OutputShape(dimensions=operand.dimensions, sufficient=False)
                self.temporaries.grow(number, too_small)

    def _request(self, step: ExecutionStep) -> Request:
        """Returns the request of a step.

        It is the same object as before while no operand has moved or changed its shape. Devices
        recognise requests that they have seen.
        """
        storage = self.temporaries.storage
        read = self._input_storage(step)
        key = (
            id(step),
            *((id(p.memory), p.offset, p.length, p.dimensions) for p in read),
            *((id(p.memory), p.offset, p.capacity) for p in map(storage.__getitem__, step.writes)),
        )
        request = self._known.get(key)
        if request is None:
            if len(self._known) >= _REQUEST_CACHE_SIZE:
                self._known.clear()
            # The request keeps its memories alive, so that their ids stay unique.
            request = self._known[key] = self._new_request(step, read)
        return request

    def _input_storage(self, step: ExecutionStep) -> list[ValueStorage]:
        """Returns the storage of a step's inputs, copied to the host if on another device."""
        storage = [self.temporaries.storage[number] for number in step.reads]
        if self.temporaries.has_residents:
            for position, number in enumerate(step.reads):
                residence = self._residences.get(number)
                if residence is not None and residence.device is not step.device:
                    storage[position] = self.temporaries.storage_on_host(number)
        return storage

    def _new_request(self, step: ExecutionStep, read: Sequence[ValueStorage]) -> Request:
        pools: dict[int, tuple[int, Memory]] = {}

        def argument(storage: ValueStorage, length: int, dimensions: Dimensions) -> Argument:
            if storage.memory is None:
                return Argument()
            pool, _ = pools.setdefault(id(storage.memory), (len(pools), storage.memory))
            if isinstance(storage.memory, DeviceBuffer):
                length = 0  # a device buffer is always used as a whole
            return Argument(pool=pool, offset=storage.offset, length=length, dimensions=dimensions)

        inputs = []
        for number, operand, storage in zip(step.reads, step.input_operands, read, strict=True):
            if storage.memory is not None:
                require_agreement(operand.dimensions, storage.dimensions, self._values[number])
            inputs.append(argument(storage, storage.length, storage.dimensions))
        outputs = []
        for number, operand in zip(step.writes, step.output_operands, strict=True):
            storage = self.temporaries.storage[number]
            length = value_size(operand.type, operand.dimensions)
            outputs.append(argument(storage, storage.capacity if length is None else length, None))
        return Request(
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            pools=tuple(memory for _, memory in pools.values()),
        )


class _StepShapes:
    """Infers the output shapes of a step from its input shapes, where possible. Thread-safe."""

    def __init__(self, step: ExecutionStep) -> None:
        self._model = step.model
        self._bindings = bind_operations(step.model.main)
        self.outputs = lru_cache(maxsize=_SHAPE_CACHE_SIZE)(self._infer)

    def _infer(self, inputs: _TensorShapes) -> _TensorShapes:
        graph = self._model.main
        given = {index: shape for index, shape in zip(graph.inputs, inputs, strict=True) if shape is not None}
        try:
            shapes = infer_shapes(self._model, graph, self._bindings, given)
        except BadData:
            # The inputs do not fit the operation. The device reports that when it runs the step.
            return (None,) * len(graph.outputs)
        return tuple(shapes.get(index) for index in graph.outputs)
