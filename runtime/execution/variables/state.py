"""The variables of a stateful model, which persist from one execution to the next."""

from collections.abc import Collection, Iterable, Sequence

from neurald.hal.api_arguments import instance, items
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array as Array
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.model import StateVariable
from neurald.hal.model.strings import encode_strings
from neurald.hal.sync.lending_pool import FairLock
from neurald.hal.unpicklable import Unpicklable


class _StoredVariable:
    """A variable's value, and spare memory for its next value.

    Spare memory for strings is as large as the current strings.
    """

    __slots__ = ("declaration", "spare", "value")

    def __init__(self, variable: StateVariable) -> None:
        self.declaration = variable
        self.value = self.initial()
        self.spare = _spare_for(self.value)

    def initial(self) -> Array:
        """Returns a new array with the initial value."""
        return _copied(self.declaration.initial)

    def replace(self, value: Array) -> None:
        """Replaces the value.

        If the new one is in the spare memory, the old value's memory becomes the spare.
        """
        self.spare = self.value if value is self.spare else _spare_for(value)
        self.value = value


class _SharedVariables:
    """The variables of all compilations that share state.

    Attributes:
        lock: an execution holds it from reading the values until it has replaced them.
        changes: number of times that the values were replaced.
        stored: all variables, each once.
    """

    def __init__(self) -> None:
        self.lock = FairLock()
        self.stored: list[_StoredVariable] = []
        self.changes = 0


class State(Unpicklable):
    """The variables of a compilation, which persist from one execution to the next.

    Executions of all compilations that share variables run one after another. An execution that
    fails leaves the state unchanged.

    Args:
        variables: the variables of the model.
        shared: state of another compilation; variables of the same name are shared with it.

    Raises:
        BadData: see `check_shared`.
    """

    instead_of_pickling = "Pickle the values of its variables, which State.value copies"

    def __init__(self, variables: Sequence[StateVariable], shared: "State | None" = None) -> None:
        self._shared: _SharedVariables = _SharedVariables() if shared is None else shared._shared
        with self.lock:
            if shared is None:
                self._stored = tuple(_StoredVariable(variable) for variable in variables)
                self._shared.stored.extend(self._stored)
                return
            shared.check_shared(variables)
            known = {stored.declaration.name: stored for stored in self._shared.stored}
            self._stored = tuple(known.get(v.name) or _StoredVariable(v) for v in variables)
            self._shared.stored.extend(
                stored for stored in self._stored if stored.declaration.name not in known
            )

    @property
    def lock(self) -> FairLock:
        """The lock that an execution holds from reading the values until it has replaced them."""
        return self._shared.lock

    def check_shared(self, variables: Sequence[StateVariable]) -> None:
        """Checks that a model with these variables can share this state.

        Raises:
            BadData: names are not unique, or variables of the same name have different initial
                values.
        """
        shared = list(self._shared.stored)
        known = {stored.declaration.name: stored.declaration for stored in shared}
        for count, names in (
            (len(shared), set(known)),
            (len(variables), {variable.name for variable in variables}),
        ):
            if len(names) < count:
                raise BadData(
                    f"{count} variables have only {len(names)} names; to be shared, each needs a name "
                    "of its own"
                )
        for variable in variables:
            other = known.get(variable.name)
            if other is not None and not _have_same_initial_value(variable, other):
                raise BadData(
                    f"variable {variable.name} does not have the same type and initial value in both models"
                )

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return f"<State: {', '.join(self.names) or 'no variables'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, which need not be unique."""
        return tuple(stored.declaration.name for stored in self._stored)

    def value(self, name: str) -> Array:
        """Returns a copy of the first variable of that name.

        Raises:
            BadData: there is no such variable.
        """
        if instance(name, str, "the name of a variable") not in self.names:
            raise BadData(
                f"there is no variable {name!r}; the variables are: {', '.join(self.names) or 'none'}"
            )
        with self.lock:
            return self._stored[self.names.index(name)].value.copy()

    def reset(self, names: Collection[str] | None = None) -> None:
        """Resets variables to their initial values, also for the compilations that share them.

        Args:
            names: the names of the variables to reset; None for all.

        Raises:
            BadData: there is no variable of such a name.
        """
        if names is not None:
            expected = "a list of names"
            names = {
                instance(each, str, "the name of a variable") for each in items(names, "the names", expected)
            }
            unknown = sorted(names.difference(self.names))
            if unknown:
                raise BadData(
                    f"there is no variable {unknown[0]!r}; the variables are: {', '.join(self.names) or 'none'}"
                )
        with self.lock:
            self.replace(
                [
                    stored.initial() if names is None or stored.declaration.name in names else stored.value
                    for stored in self._stored
                ]
            )

    def begin_with(self, variables: Sequence[StateVariable]) -> None:
        """Gives variables these initial values, also for the compilations that share them.

        Args:
            variables: of another model, with the names and types of those here.
        """
        own = {variable.name: variable.initial for variable in variables}
        with self.lock:
            self.replace(
                [
                    _copied(own[stored.declaration.name]) if stored.declaration.name in own else stored.value
                    for stored in self._stored
                ]
            )

    def as_declared(self, variables: Sequence[StateVariable]) -> tuple[StateVariable, ...]:
        """Returns variables as declared here, if they differ in their initial values only."""
        known = {stored.declaration.name: stored.declaration for stored in list(self._shared.stored)}
        return tuple(
            other
            if (other := known.get(each.name)) is not None
            and (other.initial.dtype, other.initial.shape) == (each.initial.dtype, each.initial.shape)
            else each
            for each in variables
        )

    def values(self) -> list[Array]:
        """Returns the values that the next execution reads. The caller holds `lock`."""
        return [stored.value for stored in self._stored]

    def spares(self) -> list[Array]:
        """Returns the memory for the new values; it does not change until they are replaced.

        The caller holds `lock`.
        """
        return [stored.spare for stored in self._stored]

    @property
    def changes(self) -> int:
        """The number of times that compilations sharing the variables have replaced their values.

        The caller holds `lock`.
        """
        return self._shared.changes

    def exchange(self) -> None:
        """Swaps the values with the spare memory, which holds all new values.

        The caller holds `lock`.
        """
        self._shared.changes += 1
        for stored in self._stored:
            stored.value, stored.spare = stored.spare, stored.value

    def replace(self, values: Iterable[Array]) -> None:
        """Replaces the values by those of an execution, in spare memory or in new arrays.

        The caller holds `lock`.
        """
        self._shared.changes += 1
        for stored, value in zip(self._stored, values, strict=True):
            stored.replace(value)


def _copied(array: Array) -> Array:
    if array.dtype.hasobject:
        return np.array(array, order="C")
    copied = _like(array)
    copied[...] = array
    return copied


def _like(array: Array) -> Array:
    """Allocates aligned memory for an array of the same shape and type."""
    return aligned_zeros(array.nbytes).view(array.dtype).reshape(array.shape)


def _spare_for(value: Array) -> Array:
    if value.dtype.hasobject:
        return np.empty(encode_strings(value).nbytes, np.uint8)
    return _like(value)


def _have_same_initial_value(first: StateVariable, second: StateVariable) -> bool:
    """Returns True if two variables have the same type and initial value."""
    a, b = first.initial, second.initial
    may_be_nan = a.dtype.kind in "fc"
    return a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=may_be_nan))
