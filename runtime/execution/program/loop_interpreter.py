"""Interprets the IF and WHILE operations of a plan.

`neurald.hal.operations.control_flow` defines their semantics.
"""

import time
from collections.abc import Sequence

from msgspec import Struct

from neurald.hal.device.execution import loop_timed_out
from neurald.hal.errors import OpFailed
from neurald.hal.model.elements import stored_array
from neurald.hal.model.types import OperandType
from neurald.runtime.execution.program.temporaries import Temporaries, ValueStorage
from neurald.runtime.plan.plan import IfStep, WhileStep


def condition_holds(storage: ValueStorage, step: IfStep | WhileStep) -> bool:
    """Returns the value of a step's condition.

    Raises:
        OpFailed: the condition does not have exactly one element.
    """
    values = stored_array(storage.content().view(), OperandType.TENSOR_BOOL8, storage.dimensions or ())
    if values.size != 1:
        kind = "IF" if isinstance(step, IfStep) else "WHILE"
        raise OpFailed(f"{step}: the condition of {kind} has {values.size} elements; one is expected")
    return bool(values.reshape(-1)[0])


class _Loop(Struct):
    """A running loop: its deadline, and whether its body (rather than its condition) ran last."""

    deadline_s: float
    is_after_body: bool = False


class Loops:
    """The loops of one execution.

    The program reaches a WhileStep when it enters the loop, after the steps of the condition, and
    after those of the body. As on the CPU device, the timeout is checked only before each
    iteration, once the condition is true.
    """

    def __init__(self, temporaries: Temporaries, loop_timeout_s: float) -> None:
        self._temporaries = temporaries
        self._loop_timeout_s = loop_timeout_s
        self._running: dict[int, _Loop] = {}

    def advance(self, position: int, step: WhileStep) -> int:
        """Advances the loop at a WhileStep; returns the next position in the program.

        Raises:
            MissedDeadlineTransient: the condition is still true after the loop timeout.
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
        if not condition_holds(self._temporaries.storage[step.condition], step):
            del self._running[position]
            self._leave(step)
            return step.end_position
        if time.monotonic() >= loop.deadline_s:
            raise loop_timed_out(str(step))
        loop.is_after_body = True
        return step.body_position

    def _enter(self, step: WhileStep) -> None:
        """Binds the initial values: the first iteration reads them in place, without a copy."""
        self._bind(step.carried, [self._temporaries.storage[number] for number in step.initial])

    def _carry(self, step: WhileStep) -> None:
        """Swaps buffers: the next iteration reads the body's results and overwrites its inputs."""
        storage = self._temporaries.storage
        for carried, result, spare in zip(step.carried, step.results, step.spares, strict=True):
            storage[carried] = storage[result]
            storage[result], storage[spare] = storage[spare], storage[result]

    def _leave(self, step: WhileStep) -> None:
        for carried, output in zip(step.carried, step.outputs, strict=False):
            self._temporaries.copy(carried, output)

    def _bind(self, numbers: Sequence[int], sources: Sequence[ValueStorage]) -> None:
        for number, source in zip(numbers, sources, strict=True):
            self._temporaries.storage[number] = source
