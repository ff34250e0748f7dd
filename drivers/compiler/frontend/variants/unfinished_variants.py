"""Leaves the variants that are not compiled yet to another process when this one exits."""

import contextlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from neurald.drivers.compiler.frontend.variants.kept_variants import Shape
from neurald.hal.compiling.leaving import call_at_exit, call_no_more, note_freed
from neurald.hal.errors import Error

#: How many sets of shapes an exiting process leaves to be compiled.
_MAX_LEFT = 4

#: Leaves sets of input shapes, by operand, to another process.
Leave: TypeAlias = "Callable[[Sequence[Mapping[int, Shape]]], None]"


class UnfinishedVariants:
    """The shapes that run on the first tier of a model. Its user calls it with a lock.

    Args:
        leave: is called when the process exits, with the latest shapes. It must not refer to the
            prepared model.
        size_bytes: the size of the model's constants, which are kept until then.
    """

    def __init__(self, leave: Leave, size_bytes: int) -> None:
        #: The latest is the last one.
        self._shapes: dict[tuple[Shape | None, ...], Mapping[int, Shape]] = {}
        self._at_exit = partial(_leave_latest, self._shapes, leave)
        weakref.finalize(self, note_freed, self._at_exit, size_bytes).atexit = False

    def add(self, shapes: tuple[Shape | None, ...], known: Mapping[int, Shape]) -> None:
        """Notes that the variant for these shapes is not compiled yet.

        Args:
            shapes: the shapes of all inputs.
            known: the same by operand, without those of omitted inputs.
        """
        call_at_exit(self._at_exit)
        self._shapes.pop(shapes, None)
        self._shapes[shapes] = known
        while len(self._shapes) > _MAX_LEFT:
            del self._shapes[next(iter(self._shapes))]

    def remove(self, shapes: tuple[Shape | None, ...]) -> None:
        """Notes that the variant for these shapes is compiled."""
        self._shapes.pop(shapes, None)
        if not self._shapes:
            # It would keep the constants.
            call_no_more(self._at_exit)


def _leave_latest(unfinished: Mapping[tuple[Shape | None, ...], Mapping[int, Shape]], leave: Leave) -> None:
    latest = list(unfinished.values())
    if latest:
        with contextlib.suppress(Error, OSError):
            leave(latest)
