"""Runs stateful models, whose variables are additional inputs and outputs.

A variable has two buffers. An execution reads one and writes the other; on success they are
swapped. Therefore nothing is copied, and a repeated execution alternates between only two requests,
which devices recognise.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import BadData, BadState, OpFailed
from neurald.hal.execution.direct_calls import ShortExecution
from neurald.hal.execution.reusable import ReusableExecution
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.elements import array_to_store, stored_array
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import OperandType
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.execution.variables.state import Array, State
from neurald.runtime.execution.variables.variables_in_place import (
    VariablesInPlace,
    may_replace_in_place,
    with_variables,
)

#: Number of cached requests. Two alternate while nothing else uses the variables.
_REQUEST_CACHE_SIZE = 4


class _StatefulRequest(Struct):
    """A request that includes the variables, and its last result.

    Attributes:
        base: the request without variables.
        values: current values of the variables.
        buffers: memory for the new values.
        request: the base with the values as inputs and the buffers as outputs.
        result: the result of the last run; None before the first.
        visible: the same result without the variables.
        new: the new values, if they are views of `buffers`.
        follower: the request that reads `buffers` and writes to the memory of the old values; None
            until it is first needed.
        fast_path: runs `request` again on the device's fast path, if it has one.
    """

    base: Request
    values: Sequence[Array]
    buffers: Sequence[Array]
    request: Request
    result: ExecutionResult | None = None
    visible: ExecutionResult | None = None
    new: Sequence[Array] = ()
    follower: "_StatefulRequest | None" = None
    fast_path: ReusableExecution | None = None


class StatefulRuns:
    """Runs the requests of one execution with the variables of its compilation.

    Args:
        state: the variables; locked during a run.
        types: the types of the variables.
    """

    def __init__(self, state: State, types: Sequence[OperandType]) -> None:
        self._state = state
        self._types = types
        self._are_views = may_replace_in_place(types)
        self._requests: dict[tuple[int, ...], _StatefulRequest] = {}
        self._last: _StatefulRequest | None = None
        self._changes = -1

    def run(
        self, request: Request, options: ExecuteOptions, execute: Callable[[Request], ExecutionResult]
    ) -> ExecutionResult:
        """Runs with the variables, and keeps their new values on success.

        Args:
            request: without the variables.
            options: the options for the execution; its deadline and cancellation also limit the
                wait for the variables.
            execute: the function that executes the request, which includes the variables.

        Returns:
            The result without the variables.

        Raises:
            OpFailed: the device wrote an invalid value of a variable.
            Error: the execution failed.
        """
        state = self._state
        state.lock.take(options.deadline_s, options.cancellation)
        try:
            extended = self._request_for_current_values(request)
            while True:
                result = execute(extended.request)
                if result is not extended.result:
                    self._record_result(extended, result)
                visible = extended.visible
                if visible is None or not visible.is_sufficient:
                    return visible or result
                if result.is_sufficient:
                    break
                # A variable has outgrown its buffer. The run has changed nothing, so it can be
                # repeated with larger buffers.
                sizes = [size or 0 for size, _ in self._written(result)]
                buffers = [np.empty(size, np.uint8) for size in sizes]
                extended = self._create_request(request, state.values(), buffers)
            if extended.new is extended.buffers:
                state.exchange()
                self._last, self._changes = extended, state.changes
            else:
                state.replace(extended.new if self._are_views else self._new_values(extended, result))
                self._last = None
            return visible
        finally:
            state.lock.give_back(None)

    def create_reusable_execution(
        self, request: Request, create: Callable[[Request], ReusableExecution | None]
    ) -> Callable[[Cancellation], None] | None:
        """Returns a function that repeats the last `run` on the device's fast path.

        Args:
            request: the request of the last successful `run`, without the variables.
            create: creates the function for a request that includes the variables.

        Returns:
            The function. None unless the last runs alternated between two requests and the device
                has a fast path for both.
        """
        last = self._last
        follower = None if last is None else last.follower
        if last is None or follower is None or last.base is not request or follower.follower is not last:
            return None
        if follower.result is not last.result:
            return None
        for extended in (last, follower):
            extended.fast_path = create(extended.request)
        return self._run_fast_path if last.fast_path and follower.fast_path else None

    def create_short_execution(
        self, request: Request, create: Callable[[Request], ShortExecution | None]
    ) -> Callable[[], bool | ExecutionResult | None] | None:
        """Returns a function that repeats the last `run` as a short execution.

        Args:
            request: the request of the last successful `run`, without the variables.
            create: creates the function for a request that includes the variables.

        Returns:
            The function; None if it is not possible.
        """
        if not self._are_views:
            return None

        def create_in_place(variables: Sequence[HostMemory]) -> ShortExecution | None:
            return create(with_variables(request, variables))

        in_place = VariablesInPlace(self._state, create_in_place)
        return in_place.run if in_place.is_possible() else None

    def _run_fast_path(self, cancellation: Cancellation) -> None:
        """Runs the request that follows the last one.

        Raises:
            BadState: another execution has changed the variables.
            OpFailed: results have other shapes than in the last run.
            Error: the execution failed.
        """
        state = self._state
        state.lock.take(None, cancellation)
        try:
            last = self._last
            extended = None if last is None else last.follower
            if extended is None or extended.fast_path is None or state.changes != self._changes:
                raise BadState("another execution has changed the variables since the last run")
            if extended.fast_path(cancellation) not in (None, extended.result):
                raise OpFailed("the result has other shapes than that of the last run")
            state.exchange()
            self._last, self._changes = extended, state.changes
        finally:
            state.lock.give_back(None)

    def _request_for_current_values(self, request: Request) -> _StatefulRequest:
        """Returns the request with the current values of the variables."""
        last, state = self._last, self._state
        if last is None or last.base is not request or state.changes != self._changes:
            return self._cached_request(request, state.values(), state.spares())
        if last.follower is None:
            last.follower = self._cached_request(request, state.values(), state.spares())
        return last.follower

    def _cached_request(
        self, request: Request, values: Sequence[Array], spares: Sequence[Array]
    ) -> _StatefulRequest:
        """Returns the request for these values of the variables and buffers for the new ones."""
        key = (id(request), *map(id, values), *map(id, spares))
        extended = self._requests.get(key)
        if extended is None:
            if len(self._requests) >= _REQUEST_CACHE_SIZE:
                self._requests.clear()
            # The entry keeps the objects alive whose ids form its key.
            extended = self._requests[key] = self._create_request(request, values, spares)
        return extended

    def _create_request(
        self, base: Request, values: Sequence[Array], buffers: Sequence[Array]
    ) -> _StatefulRequest:
        stored = [
            array_to_store(value, operand_type)
            for value, operand_type in zip(values, self._types, strict=True)
        ]
        first = len(base.pools)
        memories = [HostMemory(array) for array in (*stored, *buffers)]
        arguments = [
            Argument(
                pool=first + n,
                length=memory.size,
                dimensions=values[n].shape if n < len(values) else None,
            )
            for n, memory in enumerate(memories)
        ]
        request = Request(
            inputs=(*base.inputs, *arguments[: len(values)]),
            outputs=(*base.outputs, *arguments[len(values) :]),
            pools=(*base.pools, *memories),
        )
        return _StatefulRequest(base, values, buffers, request)

    def _record_result(self, extended: _StatefulRequest, result: ExecutionResult) -> None:
        """Records a result and derives the visible one and the new values."""
        shown = len(result.output_shapes) - len(self._types)
        extended.visible = replace(result, output_shapes=result.output_shapes[:shown])
        if result.is_sufficient and self._are_views:
            new = self._new_values(extended, result)
            is_in_place = all(one is buffer for one, buffer in zip(new, extended.buffers, strict=True))
            extended.new = extended.buffers if is_in_place else new
        extended.result = result

    def _written(self, result: ExecutionResult) -> list[tuple[int | None, tuple[int, ...]]]:
        """Returns the size in bytes and the shape of each variable's new value."""
        shapes = result.output_shapes[len(result.output_shapes) - len(self._types) :]
        return [
            (shape.size_bytes(operand_type), shape.dimensions or ())
            for shape, operand_type in zip(shapes, self._types, strict=True)
        ]

    def _new_values(self, extended: _StatefulRequest, result: ExecutionResult) -> list[Array]:
        new = []
        for (size_bytes, shape), operand_type, buffer in zip(
            self._written(result), self._types, extended.buffers, strict=True
        ):
            if self._are_views and buffer.dtype == operand_type.dtype and buffer.shape == shape:
                new.append(buffer)
                continue
            try:
                new.append(stored_array(HostMemory(buffer).view(0, size_bytes or 0), operand_type, shape))
            except BadData as error:
                raise OpFailed(f"the device wrote invalid strings: {error}") from None
        return new
