"""The values that a stateful model keeps from one execution to the next."""

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.types import StateVariable


class State:
    """The variables of a compilation. A new one holds their initial values.

    Executions of a stateful compilation run one after another; one that fails leaves the state as it was.
    """

    def __init__(self, variables: Sequence[StateVariable]) -> None:
        self._variables = tuple(variables)
        self._values = self._initial()
        #: Held by an execution from reading the values to replacing them.
        self.lock = threading.Lock()

    def _initial(self) -> list[np.ndarray[Any, Any]]:
        return [np.array(variable.initial, order="C") for variable in self._variables]

    def __len__(self) -> int:
        return len(self._variables)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names, which need not be unique."""
        return tuple(variable.name for variable in self._variables)

    def value(self, name: str) -> np.ndarray[Any, Any]:
        """A copy of the first variable of that name.

        Raises:
            BadData: there is none.
        """
        if name not in self.names:
            raise BadData(f"there is no variable {name!r}; there are: {', '.join(self.names) or 'none'}")
        with self.lock:
            return self._values[self.names.index(name)].copy()

    def reset(self) -> None:
        """Gives every variable its initial value."""
        with self.lock:
            self._values = self._initial()

    def values(self) -> list[np.ndarray[Any, Any]]:
        """What the next execution reads; `lock` is held."""
        return self._values

    def replace(self, values: Iterable[np.ndarray[Any, Any]]) -> None:
        """What an execution has left; `lock` is held."""
        self._values = list(values)
