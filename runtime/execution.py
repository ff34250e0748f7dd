"""Execution: binds buffers to a compilation's inputs and outputs, and runs it.

States: preparation, computation, completed. Buffers and settings belong to preparation; a one-shot execution computes
once, a reusable one again and again with the same buffers, never twice at the same time. A call that is refused changes
nothing.
"""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np

from neurald.hal.device import (
    LOOP_TIMEOUT_DEFAULT_S,
    LOOP_TIMEOUT_MAXIMUM_S,
    ExecuteOptions,
    ExecutionResult,
)
from neurald.hal.errors import (
    BadData,
    BadState,
    Error,
    OpFailed,
    OutputInsufficientSize,
    UnexpectedNull,
)
from neurald.hal.memory import HostMemory, Memory
from neurald.hal.types import Argument, Dimensions, Duration, Operand, Request
from neurald.hal.validate import validate_argument
from neurald.runtime.event import Event
from neurald.runtime.executor import StepExecutor

if TYPE_CHECKING:
    from neurald.runtime.compilation import Compilation


class _State(Enum):
    PREPARATION = auto()
    COMPUTATION = auto()
    COMPLETED = auto()


@dataclass(frozen=True, slots=True)
class _Bound:
    """An argument and the memory that it lies in; no memory for an omitted input."""

    argument: Argument
    memory: Memory | None


class Execution:
    """One execution of a compilation. Thread-safe.

    Args:
        compilation: a finished compilation.
        reusable: whether it may compute again after it has completed.

    Raises:
        UnexpectedNull: there is no compilation.
    """

    def __init__(self, compilation: "Compilation", *, reusable: bool = False) -> None:
        if compilation is None:
            raise UnexpectedNull("compilation is None")
        operands = compilation.model.main.operands
        self._executor = StepExecutor(compilation.plan.body.step)
        self._variables = compilation.state
        self._input_operands = [operands[index] for index in compilation.model.inputs]
        self._output_operands = [operands[index] for index in compilation.model.outputs]
        self._inputs: dict[int, _Bound] = {}
        self._outputs: dict[int, _Bound] = {}
        self._reusable = reusable
        self._measure = False
        self._timeout_s: float | None = None
        self._loop_timeout_s = LOOP_TIMEOUT_DEFAULT_S
        self._state = _State.PREPARATION
        self._lock = threading.Lock()
        self._request: Request | None = None
        self._result: ExecutionResult | None = None

    def set_input(self, index: int, array: "np.ndarray[Any, Any] | None") -> None:
        """Binds an array as an input; None omits an optional one.

        The array is read where it lies when the execution computes. Its shape fills in what the model leaves open.

        Raises:
            BadData: no such input, not C-contiguous, or another type or shape than the model's.
            BadState: the input is bound already, or the execution has started.
        """
        with self._lock:
            operand = self._slot(self._inputs, self._input_operands, index, "input")
            what = f"input {index}"
            if array is None:
                self._inputs[index] = _Bound(Argument(), None)
                return
            memory = _array_memory(array, operand, what)
            shape = array.shape if operand.type.is_tensor else ()
            argument = Argument(pool=0, length=memory.size, dimensions=shape)
            validate_argument(argument, operand, (memory,), what, is_output=False)
            self._inputs[index] = _Bound(argument, memory)

    def set_output(self, index: int, array: "np.ndarray[Any, Any]") -> None:
        """Binds an array as an output, which is written where it lies.

        For an output whose shape the model leaves open, the array is a buffer, filled from its start;
        `output_dimensions` tells the real shape.

        Raises:
            BadData: no such output, read-only, not C-contiguous, or another type or size than the model's.
            BadState: the output is bound already, or the execution has started.
            UnexpectedNull: there is no array.
        """
        with self._lock:
            operand = self._slot(self._outputs, self._output_operands, index, "output")
            if array is None:
                raise UnexpectedNull(f"output {index}: the array is None")
            memory = _array_memory(array, operand, f"output {index}")
            self._bind_output(index, operand, memory, Argument(pool=0, length=memory.size))

    def set_input_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, dimensions: Dimensions = None
    ) -> None:
        """Binds `length` bytes of a memory, from `offset`, as an input.

        Args:
            index: of the input.
            memory: where the bytes are.
            offset: of the first byte.
            length: in bytes.
            dimensions: the shape, where the model leaves it open.

        Raises:
            BadData: no such input, the range is not inside the memory, or its length is not the input's size.
            BadState: the input is bound already, or the execution has started.
            UnexpectedNull: there is no memory.
        """
        with self._lock:
            operand = self._slot(self._inputs, self._input_operands, index, "input")
            if memory is None:
                raise UnexpectedNull(f"input {index}: the memory is None")
            argument = Argument(pool=0, offset=offset, length=length, dimensions=dimensions)
            validate_argument(argument, operand, (memory,), f"input {index}", is_output=False)
            self._inputs[index] = _Bound(argument, memory)

    def set_output_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, dimensions: Dimensions = None
    ) -> None:
        """Binds `length` bytes of a memory, from `offset`, as an output; see `set_input_from_memory`."""
        with self._lock:
            operand = self._slot(self._outputs, self._output_operands, index, "output")
            if memory is None:
                raise UnexpectedNull(f"output {index}: the memory is None")
            argument = Argument(pool=0, offset=offset, length=length, dimensions=dimensions)
            self._bind_output(index, operand, memory, argument)

    def _bind_output(self, index: int, operand: Operand, memory: Memory, argument: Argument) -> None:
        validate_argument(argument, operand, (memory,), f"output {index}", is_output=True)
        self._outputs[index] = _Bound(argument, memory)

    def _slot(self, slots: dict[int, _Bound], operands: list[Operand], index: int, what: str) -> Operand:
        """The operand of a slot that may be bound now."""
        self._require_preparation()
        if not 0 <= index < len(operands):
            raise BadData(f"there is no {what} {index}; the model has {len(operands)}")
        if index in slots:
            raise BadState(f"{what} {index} is bound already")
        return operands[index]

    def set_reusable(self, reusable: bool = True) -> None:
        """Whether it may compute again after it has completed.

        Raises:
            BadState: the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._reusable = reusable

    def set_measure_timing(self, measure: bool = True) -> None:
        """Whether `duration` will be known.

        Raises:
            BadState: the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._measure = measure

    def set_timeout(self, seconds: float | None) -> None:
        """How long one computation may take; None or 0 for no limit.

        Raises:
            BadData: the time is negative.
            BadState: the execution has started.
        """
        if seconds is not None and not seconds >= 0:
            raise BadData(f"timeout {seconds} s; it must not be negative")
        with self._lock:
            self._require_preparation()
            self._timeout_s = seconds or None

    def set_loop_timeout(self, seconds: float) -> None:
        """How long one WHILE operation may run: 2 s unless set, 15 s at the most.

        Raises:
            BadData: the time is negative.
            BadState: the execution has started.
        """
        if not seconds >= 0:
            raise BadData(f"loop timeout {seconds} s; it must not be negative")
        with self._lock:
            self._require_preparation()
            self._loop_timeout_s = min(seconds, LOOP_TIMEOUT_MAXIMUM_S)

    def compute(self) -> None:
        """Runs the model; returns when the outputs are written.

        Raises:
            BadData: an input or output is not bound; bind it and call again.
            BadState: it is computing, or has computed and is not reusable.
            OutputInsufficientSize: an output buffer is too small; no output is defined, all shapes are known.
            Error: the device failed.
        """
        self._start()
        self._run()

    def start_compute(self) -> Event:
        """Runs the model in a thread of its own; see `compute` for what it raises at once or in `Event.wait`."""
        self._start()
        event = Event()

        def work() -> None:
            try:
                self._run()
            except Error as error:
                event.signal(error)
            except BaseException as error:
                event.signal(OpFailed(f"{type(error).__name__}: {error}"))
                raise
            else:
                event.signal(None)

        threading.Thread(target=work, name="neurald execution", daemon=True).start()
        return event

    def _start(self) -> None:
        with self._lock:
            if self._state is _State.COMPUTATION:
                raise BadState("the execution is computing")
            if self._state is _State.COMPLETED and not self._reusable:
                raise BadState("the execution has computed, and it is not reusable")
            if self._request is None:
                self._request = self._bound_request()
            self._state = _State.COMPUTATION
            self._result = None

    def _bound_request(self) -> Request:
        for slots, operands, what in (
            (self._inputs, self._input_operands, "input"),
            (self._outputs, self._output_operands, "output"),
        ):
            missing = [str(position) for position in range(len(operands)) if position not in slots]
            if missing:
                raise BadData(f"{what} {', '.join(missing)} is not bound")
        pools: dict[int, tuple[int, Memory]] = {}

        def placed(bound: _Bound) -> Argument:
            if bound.memory is None:
                return bound.argument
            pool, _ = pools.setdefault(id(bound.memory), (len(pools), bound.memory))
            return replace(bound.argument, pool=pool)

        return Request(
            inputs=tuple(placed(self._inputs[n]) for n in range(len(self._inputs))),
            outputs=tuple(placed(self._outputs[n]) for n in range(len(self._outputs))),
            pools=tuple(memory for _, memory in pools.values()),
        )

    def _run(self) -> None:
        result = None
        try:
            assert self._request is not None  # noqa: S101 - `_start` has made it
            timeout = self._timeout_s
            options = ExecuteOptions(
                measure=self._measure,
                deadline_s=None if timeout is None else time.monotonic() + timeout,
                loop_timeout_s=self._loop_timeout_s,
            )
            if len(self._variables):
                result = self._execute_with_state(self._request, options)
            else:
                result = self._executor.execute(self._request, options)
        finally:
            with self._lock:
                self._result = result
                self._state = _State.COMPLETED
        if not result.is_sufficient:
            raise self._insufficient(result)

    def _execute_with_state(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs with the variables as further inputs and outputs; keeps their new values if all went well."""
        with self._variables.lock:
            old = self._variables.values()
            new = [np.empty_like(value) for value in old]
            while True:
                result = self._executor.execute(_extended(request, old, new), options)
                shown = len(result.output_shapes) - len(new)
                visible = replace(result, output_shapes=result.output_shapes[:shown])
                if not visible.is_sufficient:
                    return visible
                shapes = [shape.dimensions or () for shape in result.output_shapes[shown:]]
                if result.is_sufficient:
                    break
                # A variable has grown. Nothing is kept of a run until it fits, so it can simply be done again.
                new = [np.empty(shape, value.dtype) for shape, value in zip(shapes, old, strict=True)]
            self._variables.replace(
                value.reshape(-1)[: math.prod(shape)].reshape(shape)
                for value, shape in zip(new, shapes, strict=True)
            )
            return visible

    def _insufficient(self, result: ExecutionResult) -> OutputInsufficientSize:
        short = [
            f"output {n} has shape {'of unknown rank' if s.dimensions is None else list(s.dimensions)}"
            for n, s in enumerate(result.output_shapes)
            if not s.sufficient
        ]
        return OutputInsufficientSize(
            f"{', '.join(short)}; its buffer is too small",
            [shape.dimensions for shape in result.output_shapes],
        )

    def output_dimensions(self, index: int) -> tuple[int, ...]:
        """The real shape of an output.

        Raises:
            BadData: no such output, or it is a scalar.
            BadState: the execution has not completed, or failed for another reason than a small buffer.
            OutputInsufficientSize: the buffer was too small, and the rank is not known.
        """
        with self._lock:
            result = self._completed()
        if not 0 <= index < len(self._output_operands):
            raise BadData(f"there is no output {index}; the model has {len(self._output_operands)}")
        if not self._output_operands[index].type.is_tensor:
            raise BadData(f"output {index} is a scalar; it has no dimensions")
        dimensions = result.output_shapes[index].dimensions
        if dimensions is None:
            raise self._insufficient(result)
        return dimensions

    def output_shapes(self) -> list[tuple[int, ...]]:
        """The real shapes of all outputs, `()` for a scalar.

        Raises:
            BadState: see `output_dimensions`.
        """
        return [
            self.output_dimensions(index) if operand.type.is_tensor else ()
            for index, operand in enumerate(self._output_operands)
        ]

    def output_rank(self, index: int) -> int:
        """The rank of an output; see `output_dimensions`."""
        return len(self.output_dimensions(index))

    def duration(self, duration: Duration) -> int | None:
        """Nanoseconds that the last computation took, None where the device cannot tell.

        Raises:
            BadData: there is no such duration.
            BadState: timing was not measured, or the execution has not completed or failed.
        """
        if duration not in list(Duration):
            raise BadData(f"duration {duration!r}; one of {[d.name for d in Duration]} is expected")
        with self._lock:
            result = self._completed()
            if not self._measure or not result.is_sufficient:
                raise BadState("no duration is known: it was not measured, or the execution failed")
        on_hardware = duration in (Duration.ON_HARDWARE, Duration.FENCED_ON_HARDWARE)
        return result.timing.on_device_ns if on_hardware else result.timing.in_driver_ns

    def _completed(self) -> ExecutionResult:
        if self._state is not _State.COMPLETED:
            raise BadState("the execution has not completed")
        if self._result is None:
            raise BadState("the execution failed")
        return self._result

    def _require_preparation(self) -> None:
        if self._state is not _State.PREPARATION:
            raise BadState("the execution has started")


def _extended(
    request: Request, old: Sequence["np.ndarray[Any, Any]"], new: Sequence["np.ndarray[Any, Any]"]
) -> Request:
    """A request with further inputs and outputs, in memories of their own."""
    first = len(request.pools)
    arguments = [
        Argument(pool=first + n, length=value.nbytes, dimensions=value.shape if n < len(old) else None)
        for n, value in enumerate((*old, *new))
    ]
    return Request(
        inputs=(*request.inputs, *arguments[: len(old)]),
        outputs=(*request.outputs, *arguments[len(old) :]),
        pools=(*request.pools, *(HostMemory(value) for value in (*old, *new))),
    )


def _array_memory(array: "np.ndarray[Any, Any]", operand: Operand, what: str) -> HostMemory:
    if not isinstance(array, np.ndarray):
        raise BadData(f"{what}: {type(array).__name__} is no NumPy array")
    if array.dtype != operand.type.dtype:
        raise BadData(f"{what}: an array of {array.dtype}; {operand.type.name} has {operand.type.dtype}")
    if not array.flags.c_contiguous:
        raise BadData(f"{what}: the array is not C-contiguous")
    return HostMemory(array)
