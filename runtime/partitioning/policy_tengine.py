"""Places and groups operations by Tengine's rules.

Tengine uses one device besides the CPU device and cuts the model where that device cannot run an
operation. Such an operation is *blocked*. From last to first, the range from each blocked operation
up to the next one (or to the end) is examined. If too little work follows the blocked operation,
the CPU device runs the whole range, otherwise only the blocked operation. Too little work means
fewer than `MIN_COMPLEXITY` operations, where a FULLY_CONNECTED counts as that many. Everything
before the first blocked operation goes to the device, however small it is. Consecutive operations
on the same device form one step.

Tengine assumes that a range of operations can run as one step. This is true here: the operations of
a valid model are stored in an executable order, so no path leaves a range and returns. Tengine
leaves three cases open. Here the device is the one that can run the most operations. A blocked
operation that the CPU device cannot run goes to the best other device. An operation of a range that
the CPU device cannot run stays on the device.
"""

from collections.abc import Mapping, Sequence

from neurald.hal.model.graph import Operation
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operation_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Preference
from neurald.runtime.model.branches import MAIN, Nesting
from neurald.runtime.partitioning.groups import Group, StepGroup
from neurald.runtime.partitioning.placement import (
    Candidate,
    DeviceScores,
    Placement,
    PlacementConstraints,
    no_device_error,
)

_FULLY_CONNECTED = (OperationType.FULLY_CONNECTED, OperationType.TFLITE_FULLY_CONNECTED)

#: Minimum work, in operations, that makes a transfer to the device worthwhile.
MIN_COMPLEXITY = 3


def place_operations(
    model: Model,
    candidates: Sequence[Candidate],
    preference: Preference,
    constraints: PlacementConstraints = PlacementConstraints(),  # noqa: B008 - immutable
) -> Mapping[int, tuple[Placement, ...]]:
    """Places every operation of the main graph. Control flow is never interpreted.

    Returns:
        By graph number, which is only that of the main graph, a placement for each operation.

    Raises:
        BadData: no device can run an operation. The message names the operation, the devices and
            their reasons.
    """
    return {MAIN: _TengineChooser(model, candidates, preference, constraints).place()}


def group_consecutive_operations(
    model: Model, placements: Mapping[int, Sequence[Placement]]
) -> tuple[Group, ...]:
    """Groups consecutive operations of the main graph on the same device into steps."""
    runs: list[tuple[int, list[int]]] = []
    for position, placement in enumerate(placements[MAIN]):
        if runs and runs[-1][0] == placement.device:
            runs[-1][1].append(position)
        else:
            runs.append((placement.device, [position]))
    return tuple(
        StepGroup(graph=MAIN, device=device, operations=tuple(operations)) for device, operations in runs
    )


def ranges_for_cpu(operations: Sequence[Operation], blocked: Sequence[int]) -> list[range]:
    """Returns the ranges that the CPU device runs, last to first.

    Args:
        operations: the operations of the graph.
        blocked: positions of the operations that the device cannot run, in ascending order.
    """
    ranges = []
    end = len(operations)
    for position in reversed(blocked):
        too_little = is_too_little(operations, position + 1, end)
        ranges.append(range(position, end if too_little else position + 1))
        end = position
    return ranges


def is_too_little(operations: Sequence[Operation], start: int, end: int) -> bool:
    """Returns True if the operations of a range are not worth a transfer to the device."""
    return end - start < MIN_COMPLEXITY and not any(
        operation.type in _FULLY_CONNECTED for operation in operations[start:end]
    )


class _TengineChooser:
    """Chooses the devices of the main graph's operations by the rules of this module."""

    def __init__(
        self,
        model: Model,
        candidates: Sequence[Candidate],
        preference: Preference,
        constraints: PlacementConstraints,
    ) -> None:
        nesting = Nesting(model)
        self._model = model
        self._candidates = candidates
        self._constraints = constraints
        self._operations = model.main.operations
        self._scores = [DeviceScores(model, nesting, c.capabilities, preference) for c in candidates]
        #: Why each candidate cannot run each operation.
        self._unsupported_reasons = [
            candidate.unsupported_reasons(MAIN, len(self._operations)) for candidate in candidates
        ]
        self._cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)
        others = [n for n in range(len(candidates)) if n != self._cpu]
        self._device = max(others, key=lambda n: (self._unsupported_reasons[n].count(""), -n), default=0)

    def place(self) -> tuple[Placement, ...]:
        chosen = [self._preferred_device(position) for position in range(len(self._operations))]
        if self._cpu is not None:
            self._move_to_cpu(chosen, self._cpu)
        known: dict[tuple[object, ...], Placement] = {}
        found = []
        for choice, reasons in zip(chosen, zip(*self._unsupported_reasons, strict=True), strict=True):
            key = (*choice, reasons)
            if key not in known:
                known[key] = self._placement(reasons, *choice)
            found.append(known[key])
        return tuple(found)

    def _move_to_cpu(self, chosen: list[tuple[int, str]], cpu: int) -> None:
        """Moves operations that the device could run to the CPU device, by the rules above."""
        can_fall_back = [not reason for reason in self._unsupported_reasons[cpu]]
        blocked = [position for position, (device, _) in enumerate(chosen) if device != self._device]
        for covered in ranges_for_cpu(self._operations, blocked):
            reason = (
                f"fewer than {MIN_COMPLEXITY} operations follow operation "
                f"{operation_number(self._model.main, covered[0])}, which {self._device_name} does not run"
            )
            for position in covered[1:]:
                if can_fall_back[position] and self._requested_device(position)[0] is None:
                    chosen[position] = (cpu, reason)
        for (_, position), reason in self._constraints.demoted.items():
            if can_fall_back[position]:
                chosen[position] = (cpu, reason)

    def _preferred_device(self, position: int) -> tuple[int, str]:
        """Returns the device for an operation that is considered alone, and the reason."""
        requested, rule = self._requested_device(position)
        if requested is not None:
            return requested, rule
        if not self._unsupported_reasons[self._device][position]:
            return self._device, f"{self._device_name} can run it"
        able = [n for n, reasons in enumerate(self._unsupported_reasons) if not reasons[position]]
        if not able:
            listed = [reasons[position] for reasons in self._unsupported_reasons]
            raise no_device_error(self._model, (MAIN, position), self._candidates, listed)
        graph = self._model.main
        operation = self._operations[position]
        best = min(able, key=lambda n: (n != self._cpu, self._scores[n].operation(graph, operation), n))
        return best, f"{self._device_name} cannot run it"

    def _requested_device(self, position: int) -> tuple[int | None, str]:
        requested, rule = self._constraints.preferred.get((MAIN, position), (None, ""))
        return (
            (requested, rule)
            if requested is not None and not self._unsupported_reasons[requested][position]
            else (None, "")
        )

    def _placement(self, unsupported: Sequence[str], device: int, reason: str) -> Placement:
        unused = f"policy tengine only uses {self._device_name} and the CPU device"
        rejected = {
            n: unfit or (reason if n in (self._device, self._cpu) else unused)
            for n, unfit in enumerate(unsupported)
            if n != device
        }
        return Placement(device=device, reason=reason, rejected=rejected)

    @property
    def _device_name(self) -> str:
        return self._candidates[self._device].name
