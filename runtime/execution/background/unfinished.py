"""Compilations in the background that no caller waits for any more, but that later processes use.

A program may free a compilation, or exit, before its code is compiled. If it does so each time, it
would never run compiled code. Therefore a model that the CPU device compiles is finished: in the
background, if its compilation is freed, and by another process of low priority, if the program
exits. That process does not keep the caller of the program waiting, and ends by itself.
"""

import contextlib
from typing import Final, Protocol

from neurald.hal.compiling.leaving import call_at_exit, may_leave
from neurald.hal.device import Device
from neurald.hal.errors import Error
from neurald.hal.model.extension import vendor_extensions
from neurald.hal.model.model import Model
from neurald.hal.process.fork import in_each_child
from neurald.runtime.plan.compiling import compiles_in_process_of_its_own, has_known_inputs
from neurald.runtime.plan.preparer import Preparer

#: How many models are left at most.
_MAX_MODELS: Final = 16
#: How many models are finished in the background although their compilations are freed.
_MAX_FREED: Final = 4


class Goal(Protocol):
    """A model to compile."""

    @property
    def device(self) -> Device:
        """The device that compiles it."""

    @property
    def model(self) -> Model:
        """The model."""

    @property
    def preparer(self) -> Preparer:
        """The preparer that finishes it."""


_goals: dict[int, Goal] = {}
_freed: set[int] = set()


def begin(goal: Goal) -> None:
    """Notes that a model will be compiled, if later processes can use the result.

    Raises:
        BadState: the environment variable has another value than 0 or 1.
    """
    if (
        may_leave()
        and goal.preparer.keeps
        and compiles_in_process_of_its_own(goal.device)
        and has_known_inputs(goal.model)
        and not vendor_extensions(goal.model)
    ):
        call_at_exit(_leave)
        _goals[id(goal)] = goal
        while len(_goals) > _MAX_MODELS:
            end(next(iter(_goals.values())))


def end(goal: Goal) -> None:
    """Notes that a model is compiled, or cannot be."""
    _goals.pop(id(goal), None)
    _freed.discard(id(goal))


def note_freed(goal: Goal) -> bool:
    """Notes that the compilation of a model was freed.

    Returns:
        Whether the model is finished nevertheless.
    """
    if id(goal) in _goals and len(_freed) < _MAX_FREED:
        _freed.add(id(goal))
        return True
    return False


def is_wanted(goal: Goal) -> bool:
    """Returns whether a model is finished although its compilation was freed."""
    return id(goal) in _freed


def _leave() -> None:
    """Leaves the models to another process."""
    goals = list(_goals.values())
    _goals.clear()
    for goal in goals:
        # A program that has done its work must not fail for what is only of use later.
        with contextlib.suppress(Error, OSError):
            goal.preparer.leave(goal.device, goal.model)


def _forget() -> None:
    """Leaves everything to the parent, in a forked child."""
    _goals.clear()
    _freed.clear()


in_each_child(_forget)
