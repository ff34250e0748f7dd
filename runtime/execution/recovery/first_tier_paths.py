"""The fast paths of a first tier, which close as soon as optimised code has replaced it."""

from collections.abc import Callable, Sequence
from typing import Any

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
from neurald.hal.sync.cancellation import Cancellation


class FirstTierPaths:
    """The fast paths of a prepared model.

    Args:
        prepared: the first tier.
        is_open: called by each of their runs; False closes them. The caller then takes the regular
            path, on which it gets the fast paths of what has replaced the first tier.
    """

    def __init__(self, prepared: PreparedModel, is_open: Callable[[], bool]) -> None:
        self._prepared = prepared
        self._is_open = is_open

    def repeating(self, request: Request) -> ReusableExecution | None:
        """Returns a function that repeats a request; see `RecoveringStep.create_reusable_execution`."""
        run, is_open = reusable_execution(self._prepared, request), self._is_open
        if run is None:
            return None

        def guarded(cancellation: Cancellation) -> ExecutionResult | None:
            if not is_open():
                raise OpFailed("the first tier was replaced")
            return run(cancellation)

        return guarded

    def short(self, request: Request) -> ShortExecution | None:
        """Returns a function that repeats a request as a short one."""
        run, is_open = short_execution(self._prepared, request), self._is_open
        return None if run is None else lambda: is_open() and run()

    def on_arrays(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """Returns a function of arrays."""
        run, is_open = array_function(self._prepared, shapes, variables), self._is_open
        if run is None:
            return None

        def guarded(*arrays: Any) -> Any:
            return run(*arrays) if is_open() else None

        return guarded
