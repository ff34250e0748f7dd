"""The values that a stateful model keeps from one execution to the next."""

import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.memory import aligned_zeros
from neurald.hal.strings import encode_strings
from neurald.hal.types import StateVariable

Array: TypeAlias = np.ndarray[Any, Any]


class _Slot:
    """Where the value of a variable is kept, and where the next one may go."""

    def __init__(self, variable: StateVariable) -> None:
        self.variable = variable
        self.value = self.initial()
        self._spare: Array | None = None

    def initial(self) -> Array:
        """A new array of the initial value."""
        initial = self.variable.initial
        if initial.dtype.hasobject:
            return np.array(initial, order="C")
        value = _like(initial)
        value[...] = initial
        return value

    def spare(self) -> Array:
        """Memory for a value like the present one; of strings, for as many bytes as they take."""
        if self.value.dtype.hasobject:
            return np.empty(encode_strings(self.value).nbytes, np.uint8)
        if self._spare is None:
            self._spare = _like(self.value)
        return self._spare

    def exchange(self, value: Array) -> None:
        """Takes a value. Where it is in the spare memory, that of the last value is the spare one from now on."""
        self._spare = self.value if value is self._spare else None
        self.value = value


class State:
    """The variables of a compilation. A new one holds their initial values.

    Executions of a stateful compilation run one after another; one that fails leaves the state as it was. So do those of all compilations that
    share variables.

    Args:
        variables: of the model.
        shared: the state of another compilation: what both have, by their names, is kept once.

    Raises:
        BadData: see `check_shared`.
    """

    def __init__(self, variables: Sequence[StateVariable], shared: "State | None" = None) -> None:
        if shared is None:
            #: Held by an execution from reading the values to replacing them.
            self.lock = threading.Lock()
            #: Of all compilations that share variables.
            self._kept = [_Slot(variable) for variable in variables]
            self._slots = tuple(self._kept)
            return
        self.lock = shared.lock
        with self.lock:
            shared.check_shared(variables)
            self._kept = shared._kept
            known = {slot.variable.name: slot for slot in self._kept}
            self._slots = tuple(known.get(v.name) or _Slot(v) for v in variables)
            self._kept.extend(slot for slot in self._slots if slot.variable.name not in known)

    def check_shared(self, variables: Sequence[StateVariable]) -> None:
        """That a model with these variables can share those that have the names of variables here.

        Raises:
            BadData: a name stands for two of them, or for variables that begin with different values.
        """
        kept = list(self._kept)
        known = {slot.variable.name: slot.variable for slot in kept}
        for count, names in (
            (len(kept), set(known)),
            (len(variables), {variable.name for variable in variables}),
        ):
            if len(names) < count:
                raise BadData(
                    f"{count} variables have {len(names)} names; what is shared needs a name for each"
                )
        for variable in variables:
            other = known.get(variable.name)
            if other is not None and not _begin_alike(variable, other):
                raise BadData(f"{variable.name} does not have the same type and initial value in both models")

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names, which need not be unique."""
        return tuple(slot.variable.name for slot in self._slots)

    def value(self, name: str) -> Array:
        """A copy of the first variable of that name.

        Raises:
            BadData: there is none.
        """
        if name not in self.names:
            raise BadData(f"there is no variable {name!r}; there are: {', '.join(self.names) or 'none'}")
        with self.lock:
            return self._slots[self.names.index(name)].value.copy()

    def reset(self) -> None:
        """Gives every variable its initial value, also for those that share it."""
        with self.lock:
            for slot in self._slots:
                slot.exchange(slot.initial())

    def values(self) -> list[Array]:
        """What the next execution reads; `lock` is held."""
        return [slot.value for slot in self._slots]

    def spares(self) -> list[Array]:
        """Memory that the next execution may write new values to, the same until one has; `lock` is held."""
        return [slot.spare() for slot in self._slots]

    def exchange(self, values: Iterable[Array]) -> None:
        """What an execution has left; `lock` is held."""
        for slot, value in zip(self._slots, values, strict=True):
            slot.exchange(value)


def _like(array: Array) -> Array:
    """Memory for another array of its shape and type, where devices like it."""
    return aligned_zeros(array.nbytes).view(array.dtype).reshape(array.shape)


def _begin_alike(first: StateVariable, second: StateVariable) -> bool:
    """Whether two variables have the same type and initial value."""
    one, other = first.initial, second.initial
    is_number = one.dtype.kind in "fc"
    return one.dtype == other.dtype and bool(np.array_equal(one, other, equal_nan=is_number))
