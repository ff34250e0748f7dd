"""Handlers of signals that hold during a block."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def signals_handled(numbers: tuple[signal.Signals, ...], handle: Callable[[], None]) -> Iterator[None]:
    """Handles signals during a block of the main thread, and restores their handlers after it.

    Args:
        numbers: the signals.
        handle: called in the main thread, between two of its instructions; what it raises is raised
            there.
    """

    def called(number: int, frame: FrameType | None) -> None:
        handle()

    with contextlib.ExitStack() as restored:
        for number in numbers:
            restored.callback(signal.signal, number, signal.signal(number, called))
        yield
