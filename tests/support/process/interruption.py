"""Interrupts a call at each place where the handler of a signal may run, in turn."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType


class Interrupted(BaseException):
    """Is raised by the handler of a signal."""


def _raise() -> None:
    raise Interrupted


def interruptions(
    call: Callable[[], object], *packages: str, handle: Callable[[], object] = _raise
) -> Iterator[int]:
    """Makes a call again and again, and yields after each time that it was interrupted.

    The first time it is interrupted at the first place in these packages, the second time at the
    second place, and so on until it is not interrupted. Handlers of signals run when a function
    begins, and after the call of a function in C; jumps backwards are left out.

    Args:
        call: raises Interrupted if the handler does.
        packages: the first parts of the names of modules.
        handle: is called at the place.
    """
    wanted = 0
    while _was_interrupted(call, packages, handle, wanted):
        yield wanted
        wanted += 1


def _was_interrupted(
    call: Callable[[], object], packages: tuple[str, ...], handle: Callable[[], object], wanted: int
) -> bool:
    passed = 0

    def at_event(frame: FrameType, event: str, _: object) -> None:
        nonlocal passed
        if event in ("call", "c_return") and str(frame.f_globals.get("__name__")).startswith(packages):
            passed += 1
            if passed == wanted + 1:
                handle()

    sys.setprofile(at_event)
    try:
        call()
    except Interrupted:
        pass
    finally:
        sys.setprofile(None)
    return passed > wanted  # Python ignores exceptions in finalizers
