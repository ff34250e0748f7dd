"""CompilationBuilder and Compilation: from a model and devices to a plan that can be executed."""

import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from neurald.hal.device import Device, PrepareOptions
from neurald.hal.errors import BadData, BadState, Error, OutputInsufficientSize, UnexpectedNull
from neurald.hal.inference import bind_operations, infer_shapes
from neurald.hal.types import DeviceType, Dimensions, Model, Preference, Priority
from neurald.runtime.devices import check_devices, cpu_device, devices, supported_operations
from neurald.runtime.execution import Execution
from neurald.runtime.partition import Candidate, Placement, find_best_device_for_each_operation
from neurald.runtime.plan import ExecutionPlan, ExecutionStep, SimpleBody
from neurald.runtime.state import State

_LOGGER = logging.getLogger(__name__)

CACHE_TOKEN_BYTES = 32

#: How many combinations of input shapes keep their output shapes.
_SHAPES_KEPT = 256

#: How often `run` enlarges the outputs of a model whose shapes depend on its data.
_GROWTH_LIMIT = 8


class CompilationBuilder:
    """Chooses how a model is to be compiled. Not thread-safe.

    Args:
        model: a finished model.
        devices: exactly these may be used, and an error of theirs is the caller's; None lets every device take
            part, and the CPU device stand in for one that fails.
        threads: how many CPU threads one execution may use; None leaves it to the driver.

    Raises:
        UnexpectedNull: there is no model.
        BadState: the model is not finished.
        BadData: the list of devices is empty or names a device twice, or `threads` is not positive.
    """

    def __init__(
        self, model: Model, devices: Sequence[Device] | None = None, threads: int | None = None
    ) -> None:
        if model is None:
            raise UnexpectedNull("model is None")
        if not isinstance(model, Model):
            raise BadState(f"{type(model).__name__} is no finished model; finish() returns one")
        if devices is not None:
            check_devices(devices)
        if threads is not None and threads < 1:
            raise BadData(f"threads is {threads}; it must be at least 1")
        self._model = model
        self._devices = None if devices is None else tuple(devices)
        self._threads = threads
        self._preference = Preference.FAST_SINGLE_ANSWER
        self._priority = Priority.MEDIUM
        self._timeout_s: float | None = None
        self._finished = False

    def set_preference(self, preference: Preference) -> None:
        """What to optimise for.

        Raises:
            BadData: there is no such preference.
            BadState: the compilation is finished.
        """
        self._require_open()
        if preference not in list(Preference):
            raise BadData(f"preference {preference!r}; one of {[p.name for p in Preference]} is expected")
        self._preference = Preference(preference)

    def set_priority(self, priority: Priority) -> None:
        """The rank of its executions among the client's own.

        Raises:
            BadData: there is no such priority.
            BadState: the compilation is finished.
        """
        self._require_open()
        if priority not in list(Priority):
            raise BadData(f"priority {priority!r}; one of {[p.name for p in Priority]} is expected")
        self._priority = Priority(priority)

    def set_timeout(self, seconds: float | None) -> None:
        """How long compiling may take; None or 0 for no limit.

        Raises:
            BadData: the time is negative.
            BadState: the compilation is finished.
        """
        self._require_open()
        if seconds is not None and not seconds >= 0:
            raise BadData(f"timeout {seconds} s; it must not be negative")
        self._timeout_s = seconds or None

    def set_caching(self, cache_dir: str | Path | None, token: bytes = b"") -> None:
        """Where compiled artefacts are kept, under a token of 32 bytes; None keeps none.

        Devices that need no cache files, such as the CPU device, never write there.

        Raises:
            BadData: the token has another length.
            BadState: the compilation is finished.
        """
        self._require_open()
        if cache_dir is not None and len(token) != CACHE_TOKEN_BYTES:
            raise BadData(f"the cache token has {len(token)} bytes; {CACHE_TOKEN_BYTES} are expected")

    def finish(self) -> "Compilation":
        """Places every operation, has the devices prepare their steps, and returns the compilation.

        Raises:
            BadData: no device can run an operation.
            BadState: the compilation is finished already.
            Error: what a device of an explicit list said.
        """
        self._require_open()
        options = PrepareOptions(
            preference=self._preference,
            priority=self._priority,
            deadline_s=None if self._timeout_s is None else time.monotonic() + self._timeout_s,
            threads=self._threads,
        )
        plan = self._plan(options)
        self._finished = True
        return Compilation(self._model, plan)

    def _require_open(self) -> None:
        if self._finished:
            raise BadState("the compilation is finished")

    def _plan(self, options: PrepareOptions) -> ExecutionPlan:
        chosen = devices() if self._devices is None else self._devices
        verdicts = supported_operations(self._model, chosen)
        candidates = [
            Candidate(
                name=device.name,
                verdicts=verdicts[device.name],
                capabilities=device.capabilities(),
                is_cpu=device.type is DeviceType.CPU,
            )
            for device in chosen
        ]
        placements = find_best_device_for_each_operation(self._model, candidates, self._preference)
        device = chosen[_one_device(self._model, placements, candidates)]
        reasons = [placement.reason for placement in placements]
        try:
            return _simple_plan(self._model, device, reasons, options)
        except (BadData, UnexpectedNull):
            raise
        except Error as error:
            cpu = cpu_device()
            if self._devices is not None or device is cpu:
                raise
            _LOGGER.warning("%s could not prepare the model, the CPU runs it: %s", device.name, error)
            reason = f"{device.name} could not prepare the model: {error}"
            return _simple_plan(self._model, cpu, [reason] * len(reasons), options)


def _one_device(model: Model, placements: Sequence[Placement], candidates: Sequence[Candidate]) -> int:
    """The device that runs the whole model: the one that most operations want, of those that can run all."""
    able = [n for n, c in enumerate(candidates) if all(verdict.ok for verdict in c.verdicts)]
    if not able:
        parts = []
        for candidate in candidates:
            position = next(i for i, verdict in enumerate(candidate.verdicts) if not verdict.ok)
            name = model.main.operations[position].type.name
            parts.append(
                f"{candidate.name}: operation {position} {name}: {candidate.verdicts[position].reason}"
            )
        raise BadData(f"no single device can run the whole model ({'; '.join(parts)})")
    wanted = Counter(placement.device for placement in placements)
    return max(able, key=lambda n: (wanted[n], -n))


def _simple_plan(
    model: Model, device: Device, reasons: Sequence[str], options: PrepareOptions
) -> ExecutionPlan:
    step = ExecutionStep(
        device=device,
        operations=tuple(range(len(model.main.operations))),
        model=model,
        prepared_model=device.prepare_model(model, options),
    )
    return ExecutionPlan(model, SimpleBody(step=step), reasons)


class Compilation:
    """A model that is ready to run. Thread-safe: several executions of it may run at once.

    Attributes:
        model: what was compiled.
        plan: which device runs which operations.
        state: the variables of a stateful model.
    """

    def __init__(self, model: Model, plan: ExecutionPlan) -> None:
        self.model = model
        self.plan = plan
        self.state = State(model.state)
        self._bindings = bind_operations(model.main)
        self._output_shapes = lru_cache(maxsize=_SHAPES_KEPT)(self._infer_output_shapes)

    def explain(self) -> str:
        """Why each operation runs where it does; see `ExecutionPlan.explain`."""
        return self.plan.explain()

    def run(self, *arrays: Any) -> list[np.ndarray[Any, Any]]:
        """Runs the model once.

        Args:
            arrays: one for each model input, in order; None omits an optional one. Their type must be the
                operand's; what is no array is converted.

        Returns:
            The outputs in order, with their real shapes.

        Raises:
            BadData: the number of arrays, a type or a shape is wrong.
            Error: the execution failed.
        """
        graph = self.model.main
        if len(arrays) != len(self.model.inputs):
            raise BadData(f"{len(arrays)} inputs are given; the model has {len(self.model.inputs)}")
        inputs = [
            None if array is None else _contiguous(array, graph.operands[index].type.dtype, position)
            for position, (array, index) in enumerate(zip(arrays, self.model.inputs, strict=True))
        ]
        shapes = list(self._output_shapes(tuple(None if a is None else a.shape for a in inputs)))
        for _ in range(_GROWTH_LIMIT):
            outputs = [
                np.empty([d or 1 for d in shape or ()] if shape is None or 0 in shape else shape, dtype)
                for shape, dtype in zip(
                    shapes, (graph.operands[i].type.dtype for i in self.model.outputs), strict=True
                )
            ]
            execution = Execution(self)
            for position, array in enumerate(inputs):
                execution.set_input(position, array)
            for position, array in enumerate(outputs):
                execution.set_output(position, array)
            try:
                execution.compute()
            except OutputInsufficientSize as error:
                shapes = list(error.dimensions)
                continue
            return [
                output.reshape(-1)[: math.prod(shape)].reshape(shape)
                for output, shape in zip(outputs, execution.output_shapes(), strict=True)
            ]
        raise OutputInsufficientSize("the outputs kept growing from run to run", shapes)

    def _infer_output_shapes(self, inputs: tuple[tuple[int, ...] | None, ...]) -> tuple[Dimensions, ...]:
        """The shapes of the outputs for inputs of these shapes, as far as they follow without running."""
        graph = self.model.main
        given = {
            index: shape for index, shape in zip(self.model.inputs, inputs, strict=True) if shape is not None
        }
        shapes = infer_shapes(self.model, graph, self._bindings, given)
        return tuple(shapes.get(index, graph.operands[index].dimensions) for index in self.model.outputs)


def _contiguous(value: Any, dtype: "np.dtype[Any]", position: int) -> np.ndarray[Any, Any]:
    """`value` as a C-contiguous array; its type is only chosen where it had none."""
    try:
        array = np.asarray(value, None if isinstance(value, np.ndarray | np.generic) else dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadData(f"input {position} cannot be stored as {dtype}: {error}") from None
    return np.ascontiguousarray(array).reshape(array.shape)
