"""Compiles units of LLVM IR to object code, each at most once per process while it is cached.

LLVM compiles on one thread per process. Large compilations are shared with helper processes (see
`compile_helper`), which compile units while others are still being generated.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence, Set
from types import TracebackType
from typing import Any

from neurald.drivers.cpu.native.objects.compile_helper import CompileHelper
from neurald.drivers.cpu.native.objects.kernel_store import KernelStore
from neurald.drivers.cpu.native.objects.llvm import CompilationFailed, TargetMachine
from neurald.drivers.cpu.native.objects.unit_queue import Unit, UnitQueue
from neurald.drivers.cpu.native.programs.step_program import caller_text
from neurald.drivers.cpu.target.routine import NAME, Routine, Subroutine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.process.fork import in_each_child, may_fork
from neurald.hal.sync.progress import report_progress

_LOG = logging.getLogger(__name__)

#: Bytes of waiting text that justify another process, as much as one compiles during its start-up:
#: for one that is started, and for one that is forked.
_BYTES_PER_HELPER = 100_000
_BYTES_PER_FORK = 30_000
#: Expected share of the time to compile a model until all routines have been generated.
GENERATION_SHARE = 0.7
#: Size of the object code cache, in bytes.
_CODE_CACHE_SIZE = 32 << 20
#: Time without progress after which helpers count as stuck; their units are compiled here.
_MAX_STALL_S = 120.0


def routine_unit(routine: Routine | Subroutine) -> Unit:
    """Returns the unit that defines a routine's function."""
    name = routine.name
    text = "\n".join((*sorted(routine.declarations), routine.text.replace(NAME, name), ""))
    return Unit(name=name, text=text)


def callers_unit(counts: Set[int]) -> Unit:
    """Returns the unit with the callers of functions with these argument counts.

    See `neurald.drivers.cpu.native.programs.step_program`.
    """
    ordered = sorted(counts)
    name = "neurald_callers_" + "_".join(str(count) for count in ordered)
    return Unit(name=name, text="\n".join(caller_text(count) for count in ordered))


def object_codes(units: Sequence[Unit], target: Target, *, processes: int = 1) -> list[bytes]:
    """Compiles units to object code.

    Args:
        units: units with distinct names.
        target: the target of the code.
        processes: maximum number of compiling processes.

    Raises:
        CompilationFailed: LLVM rejects a unit; the message names it and the reason.
    """
    with ObjectCompilation(target, processes=processes) as compilation:
        for unit in units:
            compilation.add(unit)
        return list(compilation.finish().values())


class ObjectCompilation:
    """Compiles units while others are still being generated.

    It is a context manager; leaving it ends the helper processes.

    Args:
        target: the target of the code.
        processes: maximum number of compiling processes.
        helper: a helper that was already started; it is terminated with the others.
        store: object code that is kept; None if nothing is.

    Attributes:
        target: see above.
    """

    def __init__(
        self,
        target: Target,
        *,
        processes: int = 1,
        helper: CompileHelper | None = None,
        store: KernelStore | None = None,
    ) -> None:
        self._store = store
        self._texts: dict[str, str] = {}
        self.target, self._max_helpers = target, processes - 1
        self._started = time.monotonic()
        self._codes: dict[str, bytes | None] = {}
        self._cached_only: set[str] = set()
        self._work = UnitQueue()
        self._helpers: list[CompileHelper] = []
        if helper is not None:
            self._serve(helper)

    def __enter__(self) -> "ObjectCompilation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._work.close()
        for helper in self._helpers:
            helper.close()

    def add(self, unit: Unit) -> None:
        """Adds a unit, unless there already is one of this name."""
        if unit.name in self._codes:
            return
        code = _code_cache.get((self.target.name, unit.name))
        if code is None and self._store is not None:
            code = self._store.get(unit)
            self._texts[unit.name] = unit.text
        self._codes[unit.name] = code
        if code is None:
            self._work.add(unit)
            if self._work.waiting_bytes >= _bytes_per_helper() * (1 + self._helper_count):
                self._add_helper()

    def add_to_cache(self, unit: Unit) -> None:
        """Adds a unit whose code the object code cache gets, but not the result."""
        self.add(unit)
        self._cached_only.add(unit.name)

    @property
    def _helper_count(self) -> int:
        return sum(len(helper.processes) for helper in self._helpers)

    def _add_helper(self) -> None:
        if self._helper_count < self._max_helpers:
            self._serve(CompileHelper(self.target))

    def _serve(self, helper: CompileHelper) -> None:
        self._helpers.append(helper)
        helper.serve(self._work)

    def finish(self) -> dict[str, bytes]:
        """Returns the object code of units by name, in the order in which `add` was called.

        Raises:
            CompilationFailed: LLVM rejects a unit; the message names it and the reason.
        """
        work = self._work
        work.close()
        while (unit := work.next(is_here=True)) is not None:
            work.finished(unit, _code(unit, self.target))
            done = len(work.codes) / max(1, len(self._codes))
            report_progress(GENERATION_SHARE + done * (1 - GENERATION_SHARE))
        if not work.wait(_MAX_STALL_S):
            _LOG.warning(
                "compile helpers made no progress for %.0f s; their units are compiled in this process",
                _MAX_STALL_S,
            )
        for unit in work.unfinished():
            work.finished(unit, _code(unit, self.target))
        found = {name: code for name, code in self._codes.items() if code is not None} | work.codes
        for name, code in work.codes.items():
            _code_cache.put((self.target.name, name), code)
        if self._store is not None and work.codes:
            self._store.add(work.codes, self._texts)
        _LOG.debug(
            "%d of %d units compiled for %s in %.0f ms, with %d processes",
            len(work.codes),
            len(self._codes),
            self.target.name,
            (time.monotonic() - self._started) * 1e3,
            1 + self._helper_count,
        )
        return {name: found[name] for name in self._codes if name not in self._cached_only}


def _bytes_per_helper() -> int:
    return _BYTES_PER_FORK if may_fork() else _BYTES_PER_HELPER


def _code(unit: Unit, target: Target) -> bytes:
    try:
        return TargetMachine.of(target).object_code(unit.text)
    except CompilationFailed as error:
        raise CompilationFailed(f"{unit.name}: {error}", unit.name) from None


class _CodeCache:
    """LRU cache of object code by target and name."""

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
            while self._size_bytes > _CODE_CACHE_SIZE:
                self._size_bytes -= len(self._codes.popitem(last=False)[1])

    def unlock(self) -> None:
        """Replaces the lock after a fork: the thread that held it does not exist in the child."""
        self._lock = threading.Lock()


_code_cache: Any = _CodeCache()
in_each_child(_code_cache.unlock)
