"""Finds the operations of a step that a device computes wrong.

The CPU device computes all values of the step for the inputs with which the results differed. With
them, parts of the step are executed on the device, each on right inputs: first the shortest
beginning of the step that differs, then the shortest end of that beginning. Both are found by
bisection. Operations that the device fuses into one kernel are found together if only the kernel is
wrong.
"""

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from neurald.hal.crashes.pattern import CrashPattern, ModelSignatures
from neurald.hal.device import Device, ExecuteOptions, PreparedModel
from neurald.hal.errors import BadData, Error
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operation_name
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.wording import counted
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.execution.verification.captured_run import CapturedRun
from neurald.runtime.execution.verification.step_comparison import StepComparison, has_undecided
from neurald.runtime.model.boundary import Boundary, boundaries
from neurald.runtime.model.branches import MAIN
from neurald.runtime.model.step_model import step_model

#: How long a search may take.
_MAX_S: Final = 300.0
#: How many operations a message names.
_SHOWN: Final = 4

#: Prepares a model for a device.
Prepare = Callable[[Device, Model], PreparedModel]


class WrongOperations(Struct, frozen=True, kw_only=True):
    """The outcome of an investigation.

    Attributes:
        pattern: the pattern of the operations that differ; of the whole step if no part of it does.
        difference: between the results of the two devices.
        narrowing: how the operations were found, or why they were not.
        operations: their positions in the step.
        is_certain: False if rounding may be the cause.
    """

    pattern: CrashPattern
    difference: str
    narrowing: str
    operations: range
    is_certain: bool


class Investigation:
    """The search in one step.

    Args:
        run: the run in which the results differed.
        difference: the difference that was found then.
        device: the device that computed it.
        cpu: the device that is right.
        prepare: prepares parts of the step.
        cancellation: ends the search.
    """

    def __init__(
        self,
        run: CapturedRun,
        difference: str,
        device: Device,
        cpu: Device,
        prepare: Prepare,
        cancellation: Cancellation,
    ) -> None:
        self._run = run
        self._model = run.model
        self._device = device
        self._cpu = cpu
        self._prepare = prepare
        self._cancellation = cancellation
        self._end_s = time.monotonic() + _MAX_S
        self._difference = difference
        self._trials = 0
        self._values: dict[int, Array | None] = {}

    def search(self) -> WrongOperations:
        """Returns what is found."""
        graph = self._model.main
        count = len(graph.operations)
        whole = range(count)
        try:
            self._values = self._right_values()
            self._values |= dict(zip(graph.inputs, self._run.input_arrays(), strict=True))
        except Error as error:
            return self._finding(whole, f"not narrowed: the CPU device failed: {error}")
        if not self._differs(whole):
            return self._finding(whole, "not narrowed: the same inputs gave right results afterwards")
        end = self._bisect(0, count, lambda position: self._differs(range(position)))
        start = self._bisect(-end, 0, lambda position: self._differs(range(-position, end)))
        found = range(-start, end)
        names = ", ".join(operation_name(graph, number) for number in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        text = f"{names}{more}, found among {counted(count, 'operation')} in {counted(self._trials, 'trial')}"
        self._differs(found)  # for its difference
        return self._finding(found, text)

    def _finding(self, operations: range, narrowing: str) -> WrongOperations:
        is_whole = len(operations) == len(self._model.main.operations)
        part = self._model if is_whole else self._part(operations)[0]
        return WrongOperations(
            pattern=ModelSignatures(part).pattern(),
            difference=self._difference,
            narrowing=narrowing,
            operations=operations,
            is_certain=not has_undecided(part),
        )

    def _bisect(self, low: int, high: int, differs: Callable[[int], bool]) -> int:
        """Returns a number above `low` at which a part differs, and below which one does not."""
        while high - low > 1 and time.monotonic() < self._end_s and not self._cancellation.is_cancelled:
            middle = (low + high) // 2
            if differs(middle):
                high = middle
            else:
                low = middle
        return high

    def _part(self, operations: range, outputs: tuple[int, ...] = ()) -> tuple[Model, Boundary]:
        (boundary,) = boundaries(self._model.main, [operations])
        if outputs:
            boundary = Boundary(inputs=boundary.inputs, outputs=outputs)
        part = step_model(self._model, MAIN, operations, boundary)
        return part.model, boundary

    def _right_values(self) -> dict[int, Array | None]:
        """Returns all values that the operations of the step compute.

        Raises:
            Error: the CPU device failed.
        """
        graph = self._model.main
        written = tuple(index for operation in graph.operations for index in operation.outputs)
        model, boundary = self._part(range(len(graph.operations)), written)
        arrays = self._run.input_arrays()
        by_operand = dict(zip(graph.inputs, arrays, strict=True))
        run = CapturedRun.on_arrays(model, [by_operand[index] for index in boundary.inputs])
        with convert_driver_faults(self._cpu.name):
            result, memories = run.execute(self._prepare(self._cpu, model), ExecuteOptions())
        if not result.is_sufficient:
            raise BadData("the sizes of its values are not known")
        return dict(zip(written, run.output_arrays(result, memories), strict=True))

    def _differs(self, operations: range) -> bool:
        """Returns True if the device computes these operations otherwise than the CPU device."""
        if not operations:
            return False
        self._trials += 1
        try:
            model, boundary = self._part(operations)
            run = CapturedRun.on_arrays(model, [self._values[index] for index in boundary.inputs])
            with convert_driver_faults(self._device.name):
                prepared = self._prepare(self._device, model)
                result, memories = run.execute(
                    prepared, ExecuteOptions(deadline_s=self._end_s, cancellation=self._cancellation)
                )
        except Error:
            # The device cannot run this part alone, which says nothing about its results.
            return False
        if not result.is_sufficient:
            return True
        found = run.output_arrays(result, memories)
        wanted = [self._values[index] for index in boundary.outputs]
        known = [array for array in wanted if array is not None]
        difference = StepComparison(model).difference(known, found)
        if difference is None:
            return False
        self._difference = difference.text
        return True
