"""The fast paths of a first tier, which close as soon as optimised code has replaced it."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from neurald.hal.device import ExecutionResult, PreparedModel
from neurald.hal.errors import OpFailed
from neurald.hal.execution.direct_calls import (
    ArrayFunction,
    ShortExecution,
    array_function,
    short_execution,
)
from neurald.hal.execution.reusable import ReusableExecution, reusable_execution
from neurald.hal.memory.pool import Memory
from neurald.hal.model.request import Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation

_Run = TypeVar("_Run", bound=Callable[..., Any])


class FirstTierPaths:
    """The fast paths of a prepared model. Thread-safe.

    Executions keep them for a long time, mostly without running. So closing a path also takes the
    prepared model from it, whose constants take as much memory as those of its successor.

    Args:
        prepared: the first tier.

    Attributes:
        on_run: the function that each of their runs calls, with None, since they have no deadlines;
            None for none.
    """

    def __init__(self, prepared: PreparedModel) -> None:
        self.on_run: Callable[[float | None], None] | None = None
        self._prepared: PreparedModel | None = prepared
        self._paths: WeakSet[_Path[Any]] = WeakSet()
        self._lock = forkable_lock()

    def close(self) -> None:
        """Closes all of them.

        Their callers then take the regular path, on which they get those of what has replaced the
        first tier. Runs that have begun are not affected.
        """
        with self._lock:
            self._prepared = None
            for path in self._paths:
                path.run = None

    def repeating(self, request: Request) -> ReusableExecution | None:
        """Returns what repeats a request; see `RecoveringStep.create_reusable_execution`."""
        path = self._path(lambda first: reusable_execution(first, request))
        if path is None:
            return None

        def run_while_open(cancellation: Cancellation) -> ExecutionResult | None:
            run = path.opened()
            if run is None:
                raise OpFailed("the first tier was replaced")
            return run(cancellation)

        return run_while_open

    def short(self, request: Request) -> ShortExecution | None:
        """Returns a function that repeats a request as a short one."""
        path = self._path(lambda first: short_execution(first, request))
        if path is None:
            return None

        def run_while_open() -> bool | ExecutionResult:
            run = path.opened()
            return run is not None and run()

        return run_while_open

    def on_arrays(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """Returns a function of arrays."""
        path = self._path(lambda first: array_function(first, shapes, variables))
        if path is None:
            return None

        def run_while_open(*arrays: Any) -> Any:
            run = path.opened()
            return None if run is None else run(*arrays)

        return run_while_open

    def _path(self, create: Callable[[PreparedModel], _Run | None]) -> "_Path[_Run] | None":
        """Returns a path that is closed with the others; None if the first tier has none."""
        first = self._prepared
        run = None if first is None else create(first)
        if first is not None and run is None:
            return None
        path = _Path(self, run)
        with self._lock:
            if self._prepared is None:
                path.run = None
            else:
                self._paths.add(path)
        return path


class _Path(Generic[_Run]):
    """Holds what runs a prepared model until it is closed.

    Attributes:
        run: None when it is closed.
    """

    def __init__(self, paths: FirstTierPaths, run: _Run | None) -> None:
        self._paths = paths
        self.run = run

    def opened(self) -> _Run | None:
        """Returns what a caller is about to run; None if it is closed."""
        if self._paths.on_run is not None:
            self._paths.on_run(None)
        return self.run
