"""The variables of a stateful model, which persist from one execution to the next."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import aligned_zeros
from neurald.hal.model.strings import encode_strings
from neurald.hal.model.types import StateVariable
from neurald.hal.sync.lending_pool import FairLock

Array: TypeAlias = np.ndarray[Any, Any]


class _Slot:
    """The value of a variable, and spare memory for its next value.

    Spare memory for strings is as large as the current strings.
    """

    __slots__ = ("spare", "value", "variable")

    def __init__(self, variable: StateVariable) -> None:
        self.variable = variable
        self.value = self.initial()
        self.spare = _spare_for(self.value)

    def initial(self) -> Array:
        """Returns a new array with the initial value."""
        initial = self.variable.initial
        if initial.dtype.hasobject:
            return np.array(initial, order="C")
        value = _like(initial)
        value[...] = initial
        return value

    def replace(self, value: Array) -> None:
        """Replaces the value.

        If the new one is in the spare memory, the old value's memory becomes the spare.
        """
        self.spare = self.value if value is self.spare else _spare_for(value)
        self.value = value


class _Kept:
    """The slots of all compilations that share variables.

    Attributes:
        lock: held by an execution from reading the values until replacing them.
        changes: number of times that values were replaced.
    """

    def __init__(self) -> None:
        self.lock = FairLock()
        self.slots: list[_Slot] = []
        self.changes = 0


class State:
    """The variables of a compilation, initially with their initial values.

    Executions of all compilations that share variables run one after another. One that fails leaves
    the state unchanged.

    Args:
        variables: of the model.
        shared: state of another compilation; variables of the same name are kept once.

    Raises:
        BadData: see `check_shared`.
    """

    def __init__(self, variables: Sequence[StateVariable], shared: "State | None" = None) -> None:
        self._kept: _Kept = _Kept() if shared is None else shared._kept
        with self.lock:
            if shared is None:
                self._slots = tuple(_Slot(variable) for variable in variables)
                self._kept.slots.extend(self._slots)
                return
            shared.check_shared(variables)
            known = {slot.variable.name: slot for slot in self._kept.slots}
            self._slots = tuple(known.get(v.name) or _Slot(v) for v in variables)
            self._kept.slots.extend(slot for slot in self._slots if slot.variable.name not in known)

    @property
    def lock(self) -> FairLock:
        """Held by an execution from reading the values until replacing them."""
        return self._kept.lock

    def check_shared(self, variables: Sequence[StateVariable]) -> None:
        """Checks that a model with these variables can share this state.

        Raises:
            BadData: names are not unique, or variables of the same name have different initial
                values.
        """
        kept = list(self._kept.slots)
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
        """The names of the variables, which need not be unique."""
        return tuple(slot.variable.name for slot in self._slots)

    def value(self, name: str) -> Array:
        """Returns a copy of the first variable of that name.

        Raises:
            BadData: there is no such variable.
        """
        if name not in self.names:
            raise BadData(f"there is no variable {name!r}; there are: {', '.join(self.names) or 'none'}")
        with self.lock:
            return self._slots[self.names.index(name)].value.copy()

    def reset(self) -> None:
        """Resets every variable to its initial value, also for the compilations that share it."""
        with self.lock:
            self.replace([slot.initial() for slot in self._slots])

    def values(self) -> list[Array]:
        """Returns the values that the next execution reads. The caller holds `lock`."""
        return [slot.value for slot in self._slots]

    def spares(self) -> list[Array]:
        """Returns memory for the new values, the same until they are replaced.

        The caller holds `lock`.
        """
        return [slot.spare for slot in self._slots]

    @property
    def changes(self) -> int:
        """Number of changes to the values by all compilations that share them.

        The caller holds `lock`.
        """
        return self._kept.changes

    def exchange(self) -> None:
        """Swaps the values with the spare memory, which holds all new values.

        The caller holds `lock`.
        """
        self._kept.changes += 1
        for slot in self._slots:
            slot.value, slot.spare = slot.spare, slot.value

    def replace(self, values: Iterable[Array]) -> None:
        """Replaces the values by those of an execution, in spare memory or in new arrays.

        The caller holds `lock`.
        """
        self._kept.changes += 1
        for slot, value in zip(self._slots, values, strict=True):
            slot.replace(value)


def _like(array: Array) -> Array:
    """Allocates aligned memory for an array of the same shape and type."""
    return aligned_zeros(array.nbytes).view(array.dtype).reshape(array.shape)


def _spare_for(value: Array) -> Array:
    if value.dtype.hasobject:
        return np.empty(encode_strings(value).nbytes, np.uint8)
    return _like(value)


def _begin_alike(first: StateVariable, second: StateVariable) -> bool:
    """Returns True if two variables have the same type and initial value."""
    one, other = first.initial, second.initial
    is_number = one.dtype.kind in "fc"
    return one.dtype == other.dtype and bool(np.array_equal(one, other, equal_nan=is_number))
