"""The executions that may repeat their computations on fast paths, for all to be dropped at once.

A fast path is made of functions that it has asked the layers below for. When these functions are to
be others, as at the begin and at the end of a trace, fast paths have to be made again.
"""

import itertools
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakValueDictionary


class _Repeats(Protocol):
    """An execution; see `neurald.runtime.execution.execution.Execution`."""

    def forget_fast_paths(self) -> None: ...


_executions: Final[WeakValueDictionary[int, _Repeats]] = WeakValueDictionary()
_next_state: Final[Callable[[], int]] = itertools.count(1).__next__
_state = 0


def making_fast_path(execution: _Repeats) -> int:
    """Notes that an execution is about to make a fast path.

    Returns:
        What `is_valid` takes.
    """
    _executions[id(execution)] = execution
    return _state


def is_valid(state: int) -> bool:
    """Returns whether a fast path that was made since `making_fast_path` returned may be used.

    The execution asks this with the lock held that `Execution.forget_fast_paths` needs.
    """
    return state == _state


def forget_fast_paths() -> None:
    """Drops the fast paths of all executions, also of those that are being made."""
    global _state
    _state = _next_state()
    for reference in _executions.valuerefs():
        if (execution := reference()) is not None:
            execution.forget_fast_paths()
