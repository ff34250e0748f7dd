"""Object code from LLVM's language: one object for each unit, compiled at most once for a process as long as it is kept.

LLVM compiles on one thread of a process at a time. Where there is much to do, other processes help, see
`neurald.drivers.cpu.native.compile_helper`; they take units as they come, while others are still being made.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence, Set
from types import TracebackType
from typing import Any

from neurald.drivers.cpu.native.compile_helper import Helper
from neurald.drivers.cpu.native.llvm import CompilationFailed, TargetMachine
from neurald.drivers.cpu.native.step_program import caller_text
from neurald.drivers.cpu.native.work import Unit, Work
from neurald.drivers.cpu.target.routine import NAME, Routine, Subroutine
from neurald.drivers.cpu.target.target import Target

_LOG = logging.getLogger(__name__)

#: Bytes of text that are worth another process: what is compiled in the time that it takes to start.
_SHARE_BYTES = 100_000
#: Bytes of object code that are kept for models to come.
_KEPT_BYTES = 32 << 20
#: Processes that give nothing for so long have got stuck; what they have taken is compiled here.
_PATIENCE_S = 120.0


def routine_unit(routine: Routine | Subroutine) -> Unit:
    """The unit that defines a routine's function under its name."""
    name = routine.name
    text = "\n".join((*sorted(routine.declarations), routine.text.replace(NAME, name), ""))
    return Unit(name=name, text=text)


def callers_unit(counts: Set[int]) -> Unit:
    """The unit that defines the callers of functions of so many arguments, see `neurald.drivers.cpu.native.step_program`."""
    ordered = sorted(counts)
    name = "neurald_callers_" + "_".join(str(count) for count in ordered)
    return Unit(name=name, text="\n".join(caller_text(count) for count in ordered))


def object_codes(units: Sequence[Unit], target: Target, *, processes: int = 1) -> list[bytes]:
    """The object code of each unit.

    Args:
        units: of different names.
        target: what code is generated for.
        processes: how many may compile at the same time.

    Raises:
        CompilationFailed: LLVM refuses a text; the message says which, and why.
    """
    with Compilation(target, processes=processes) as compilation:
        for unit in units:
            compilation.add(unit)
        return list(compilation.finish().values())


class Compilation:
    """Compiles units while others are still being made.

    It is a context manager; leaving it ends the processes that help.

    Args:
        target: what code is generated for.
        processes: how many may compile at the same time.
        helper: one that has been started; it is ended with the others.
    """

    def __init__(self, target: Target, *, processes: int = 1, helper: Helper | None = None) -> None:
        self._target, self._most_helpers = target, processes - 1
        self._started = time.monotonic()
        self._codes: dict[str, bytes | None] = {}
        self._work = Work()
        self._helpers: list[Helper] = []
        if helper is not None:
            self._serve(helper)

    def __enter__(self) -> "Compilation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._work.close()
        for helper in self._helpers:
            helper.close()

    def add(self, unit: Unit) -> None:
        """Another unit; one of a name that was there before is the same."""
        if unit.name in self._codes:
            return
        code = self._codes[unit.name] = _kept.get((self._target.name, unit.name))
        if code is None:
            self._work.add(unit)
            if self._work.waiting_bytes >= _SHARE_BYTES * (1 + len(self._helpers)):
                self._add_helper()

    def _add_helper(self) -> None:
        if len(self._helpers) < self._most_helpers:
            self._serve(Helper(self._target))

    def _serve(self, helper: Helper) -> None:
        self._helpers.append(helper)
        helper.serve(self._work)

    def finish(self) -> dict[str, bytes]:
        """The object code of each unit by its name, in the order in which they came.

        Raises:
            CompilationFailed: LLVM refuses a text; the message says which, and why.
        """
        work = self._work
        work.close()
        while (unit := work.next(is_here=True)) is not None:
            work.finished(unit, _code(unit, self._target))
        if not work.wait(_PATIENCE_S):
            _LOG.warning("processes that help to compile give nothing for %.0f s", _PATIENCE_S)
        for unit in work.unfinished():
            work.finished(unit, _code(unit, self._target))
        found = {name: code for name, code in self._codes.items() if code is not None} | work.codes
        for name, code in work.codes.items():
            _kept.put((self._target.name, name), code)
        _LOG.debug(
            "%d of %d units compiled for %s in %.0f ms, with %d processes",
            len(work.codes),
            len(self._codes),
            self._target.name,
            (time.monotonic() - self._started) * 1e3,
            1 + len(self._helpers),
        )
        return {name: found[name] for name in self._codes}


def _code(unit: Unit, target: Target) -> bytes:
    try:
        return TargetMachine.of(target).object_code(unit.text)
    except CompilationFailed as error:
        raise CompilationFailed(f"{unit.name}: {error}", unit.name) from None


class _Kept:
    """Object code by target and name, the latest used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._size_bytes = 0

    def get(self, key: tuple[str, str]) -> bytes | None:
        with self._lock:
            code = self._codes.get(key)
            if code is not None:
                self._codes.move_to_end(key)
            return code

    def put(self, key: tuple[str, str], code: bytes) -> None:
        with self._lock:
            self._size_bytes += len(code) - len(self._codes.pop(key, b""))
            self._codes[key] = code
            while self._size_bytes > _KEPT_BYTES:
                self._size_bytes -= len(self._codes.popitem(last=False)[1])

    def unlock(self) -> None:
        """After a fork: the thread that held the lock is not there."""
        self._lock = threading.Lock()


_kept: Any = _Kept()
os.register_at_fork(after_in_child=_kept.unlock)
