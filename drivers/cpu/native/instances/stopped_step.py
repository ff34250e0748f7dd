"""The error of a step that was stopped."""

from typing import NoReturn

from neurald.drivers.cpu.target.executable import Instruction
from neurald.drivers.cpu.target.kernel_calls import KernelCall
from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.sync.cancellation import Cancellation


def raise_stopped(stopped: KernelCall | Instruction, cancellation: Cancellation | None) -> NoReturn:
    """Raises the error of a step that was stopped.

    Args:
        stopped: what it was doing.
        cancellation: may have stopped it.

    Raises:
        Cancelled: `cancellation` has stopped it.
        MissedDeadlineTransient: otherwise.
    """
    where = f"in {_name(stopped)}"
    if cancellation is not None:
        cancellation.require_not_cancelled(where)
    raise MissedDeadlineTransient(f"the deadline passed {where}")


def _name(stopped: KernelCall | Instruction) -> str:
    if stopped.operations:
        return f"operation {', '.join(map(str, stopped.operations))}"
    return "a copy" if isinstance(stopped, Instruction) else stopped.label
