"""Acts for later processes at the exit, before the processes that compile for this one end."""

import atexit
import contextlib
from collections.abc import Callable
from typing import Final

from neurald.hal.errors import BadState
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.fork import in_each_child

#: Environment variable that ends all compiling with the program: 0.
AFTER_EXIT_VARIABLE: Final = "NEURALD_COMPILE_AFTER_EXIT"

#: How many functions are called; the oldest ones are dropped.
_MAX_ACTIONS: Final = 64

#: How much memory is kept for functions of what was freed; the oldest ones are dropped.
_MAX_FREED_BYTES: Final = 64 << 20

_actions: list[Callable[[], None]] = []
#: The actions that keep memory which nothing else uses, the oldest first, with its size.
_freed: list[tuple[Callable[[], None], int]] = []


def may_leave() -> bool:
    """Returns whether a process may leave work to another one when it exits.

    Raises:
        BadState: the environment variable has another value than 0 or 1.
    """
    text = environment_variable(AFTER_EXIT_VARIABLE)
    if text not in (None, "0", "1"):
        raise BadState(f"{AFTER_EXIT_VARIABLE} is {text!r}; 0 or 1 is expected")
    return text != "0"


def call_at_exit(action: Callable[[], None]) -> None:
    """Calls a function once when the process exits, if it may leave work then.

    Raises:
        BadState: see `may_leave`.
    """
    if may_leave() and action not in _actions:
        if not _actions:
            atexit.unregister(leave)
            atexit.register(leave)
        _actions.append(action)
        del _actions[:-_MAX_ACTIONS]


def call_no_more(action: Callable[[], None]) -> None:
    """Withdraws a function from those called when the process exits."""
    with contextlib.suppress(ValueError):
        _actions.remove(action)


def note_freed(action: Callable[[], None], size_bytes: int) -> None:
    """Notes that nothing else uses the memory that a function keeps, and bounds it.

    Args:
        action: the function that was given to `call_at_exit`.
        size_bytes: the size of that memory.
    """
    _freed.append((action, size_bytes))
    _freed[:] = [each for each in _freed if each[0] in _actions]
    while _freed and sum(size for _, size in _freed) > _MAX_FREED_BYTES:
        call_no_more(_freed.pop(0)[0])


def leave() -> None:
    """Calls what has not been called yet."""
    while _actions:
        _actions.pop()()


def _forget() -> None:
    """Leaves everything to the parent, in a forked child."""
    _actions.clear()
    _freed.clear()
    atexit.unregister(leave)


in_each_child(_forget)
