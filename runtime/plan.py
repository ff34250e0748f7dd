"""The plan of a compilation: which device runs which operations, and the models prepared for that."""

from collections.abc import Sequence
from dataclasses import dataclass

from neurald.hal.device import Device, PreparedModel
from neurald.hal.types import Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecutionStep:
    """Operations that one device runs as one model.

    Attributes:
        operations: their indexes in the main graph of the compilation's model.
        model: what the device was given.
    """

    device: Device
    operations: tuple[int, ...]
    model: Model
    prepared_model: PreparedModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimpleBody:
    """A plan of one step, which is the application's own model."""

    step: ExecutionStep

    @property
    def steps(self) -> tuple[ExecutionStep, ...]:
        """The one step."""
        return (self.step,)


class ExecutionPlan:
    """The body of a plan, and a reason for the device of every operation."""

    def __init__(self, model: Model, body: SimpleBody, reasons: Sequence[str]) -> None:
        self.model = model
        self.body = body
        self._reasons = tuple(reasons)

    @property
    def steps(self) -> tuple[ExecutionStep, ...]:
        """The steps in the order in which they run."""
        return self.body.steps

    def explain(self) -> str:
        """One line for each operation: index, type, device, reason."""
        lines = {
            position: f"operation {position} {self.model.main.operations[position].type.name} -> "
            f"{step.device.name}: {self._reasons[position]}"
            for step in self.steps
            for position in step.operations
        }
        return "\n".join(lines[position] for position in sorted(lines))
