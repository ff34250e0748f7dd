"""Interprets IF and WHILE in a plan.

`neurald.hal.operations.control_flow` defines their semantics.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from neurald.hal.device import MAX_LOOP_TIMEOUT_S
from neurald.hal.errors import MissedDeadlineTransient, OpFailed
from neurald.hal.model.types import OperandType, stored_array
from neurald.runtime.execution.temporaries import Place, Temporaries
from neurald.runtime.plan.plan import IfStep, WhileStep


def holds(place: Place, step: IfStep | WhileStep) -> bool:
    """Returns the value of a step's condition.

    Raises:
        OpFailed: the condition does not have exactly one element.
    """
    values = stored_array(place.content().view(), OperandType.TENSOR_BOOL8, place.dimensions or ())
    if values.size != 1:
        kind = "IF" if isinstance(step, IfStep) else "WHILE"
        raise OpFailed(f"{step}: the condition of {kind} has {values.size} elements; one is expected")
    return bool(values.reshape(-1)[0])


@dataclass(slots=True)
class _Loop:
    """A running loop: its deadline, and whether its body, not its condition, has run last."""

    deadline_s: float
    is_after_body: bool = False


class Loops:
    """The loops of one execution.

    A WhileStep is reached on entering the loop, after the steps of its condition, and after those
    of its body. The timeout is checked in one place, as on the CPU device: before each iteration,
    once the condition holds.
    """

    def __init__(self, temporaries: Temporaries, loop_timeout_s: float) -> None:
        self._temporaries = temporaries
        self._loop_timeout_s = min(loop_timeout_s, MAX_LOOP_TIMEOUT_S)
        self._running: dict[int, _Loop] = {}

    def meet(self, position: int, step: WhileStep) -> int:
        """Advances the loop at a WhileStep; returns the next position in the program.

        Raises:
            MissedDeadlineTransient: the condition still holds after the loop timeout.
            OpFailed: the condition does not have exactly one element, or a result's shape
                contradicts its operand.
        """
        loop = self._running.get(position)
        if loop is None:
            self._running[position] = _Loop(time.monotonic() + self._loop_timeout_s)
            self._enter(step)
            return position + 1
        if loop.is_after_body:
            loop.is_after_body = False
            self._carry(step)
            return position + 1
        if not holds(self._temporaries.places[step.condition], step):
            del self._running[position]
            self._leave(step)
            return step.end_position
        if time.monotonic() >= loop.deadline_s:
            raise MissedDeadlineTransient(f"{step} ran longer than its loop timeout")
        loop.is_after_body = True
        return step.body_position

    def _enter(self, step: WhileStep) -> None:
        """Binds the initial values: the first iteration reads them in place, without a copy."""
        self._bind(step.carried, [self._temporaries.places[number] for number in step.initial])

    def _carry(self, step: WhileStep) -> None:
        """Swaps buffers.

        The next iteration reads what the body wrote, and overwrites what was read before.
        """
        places = self._temporaries.places
        for carried, result, spare in zip(step.carried, step.results, step.spares, strict=True):
            places[carried] = places[result]
            places[result], places[spare] = places[spare], places[result]

    def _leave(self, step: WhileStep) -> None:
        for carried, output in zip(step.carried, step.outputs, strict=False):
            self._temporaries.copy(carried, output)

    def _bind(self, numbers: Sequence[int], places: Sequence[Place]) -> None:
        for number, place in zip(numbers, places, strict=True):
            self._temporaries.places[number] = place
