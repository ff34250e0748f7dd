"""Runs functions of a device that replace the variables of a stateful model in their own memory.

Copying small variables takes less time than alternating between two requests, as `stateful` does.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import OperandType
from neurald.hal.records import replace
from neurald.runtime.execution.variables.state import Array, State

#: Maximum size of all variables in bytes. Copying more takes longer than alternating.
_MAX_BYTES: Final = 16 << 10
#: Number of sets of arrays, which hold the values, for which functions are cached.
_CACHE_SIZE: Final = 4

_Result = TypeVar("_Result")


def may_replace_in_place(types: Sequence[OperandType]) -> bool:
    """Returns True if devices store values of these types as arrays do."""
    return not any(each is OperandType.TENSOR_STRING or each.dtype.kind == "b" for each in types)


def with_variables(request: Request, variables: Sequence[HostMemory]) -> Request:
    """Adds variables to a request, as its last inputs and its last outputs."""
    first = len(request.pools)
    arguments = [Argument(pool=first + n, length=memory.size) for n, memory in enumerate(variables)]
    return replace(
        request,
        inputs=(*request.inputs, *arguments),
        outputs=(*request.outputs, *arguments),
        pools=(*request.pools, *variables),
    )


class VariablesInPlace(Generic[_Result]):
    """Functions of one kind that use the variables of a compilation.

    Args:
        state: the variables; locked during a run.
        create: creates the function for the memory of the variables, if that is possible.
    """

    def __init__(
        self, state: State, create: Callable[[Sequence[HostMemory]], Callable[..., _Result] | None]
    ) -> None:
        self._state = state
        self._create = create
        self._functions: dict[tuple[int, ...], tuple[Sequence[Array], Callable[..., _Result] | None]] = {}
        self._function: Callable[..., _Result] | None = None
        self._changes = -1

    def is_possible(self) -> bool:
        """Returns True if there is a function for the current memory of the variables."""
        with self._state.lock:
            self._find()
        return self._function is not None

    def run(self, *arguments: Any) -> _Result | None:
        """Calls the function for the current memory of the variables.

        Returns:
            Its result; None if there is no function, or if the variables are in use. The caller
                then takes the regular path, on which it can be cancelled while it waits.
        """
        state = self._state
        lock = state.lock
        if not lock.try_take():
            return None
        try:
            if state.changes != self._changes:
                self._find()
            function = self._function
            return None if function is None else function(*arguments)
        finally:
            lock.give_back(None)

    def _find(self) -> None:
        values = self._state.values()
        key = tuple(map(id, values))
        found = self._functions.get(key)
        if found is None:
            if len(self._functions) >= _CACHE_SIZE:
                self._functions.clear()
            is_small = sum(value.nbytes for value in values) <= _MAX_BYTES
            function = self._create([HostMemory(value) for value in values]) if is_small else None
            # The entry keeps the objects alive whose ids form its key.
            found = self._functions[key] = values, function
        self._function, self._changes = found[1], self._state.changes
