"""The functions of a file's signatures, compiled when they are first used."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from neurald.hal.errors import BadState
from neurald.hal.process.fork import forkable_lock
from neurald.hal.unpicklable import Unpicklable


class Closable(Protocol):
    """An object that is released by a call."""

    def close(self) -> None:
        """Releases it."""


_FunctionT = TypeVar("_FunctionT", bound=Closable)


class SignatureTable(Unpicklable, Mapping[str, _FunctionT]):
    """Maps the names of signatures to functions. Thread-safe.

    Args:
        names: the names of the signatures.
        compiled: compiles a signature.
    """

    instead_of_pickling = "Pickle the function, or those of its signatures that are used"

    def __init__(self, names: Sequence[str], compiled: Callable[[str], _FunctionT]) -> None:
        self._names = tuple(names)
        self._compiled: Callable[[str], _FunctionT] | None = compiled
        self._functions: dict[str, _FunctionT] = {}
        self._lock = forkable_lock()

    def __getitem__(self, name: str) -> _FunctionT:
        if name not in self._names:
            known = ", ".join(map(repr, self._names)) or "none"
            raise KeyError(f"there is no signature {name!r}; there are: {known}")
        with self._lock:
            if self._compiled is None:
                raise BadState(f"the function whose signature {name!r} is used has been closed")
            if name not in self._functions:
                self._functions[name] = self._compiled(name)
            return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<signatures: {', '.join(self._names) or 'none'}>"

    def close(self) -> None:
        """Closes all functions, and compiles no more."""
        with self._lock:
            # It refers to the compilation with which variables are shared.
            self._compiled = None
            functions = list(self._functions.values())
            self._functions.clear()
        for function in functions:
            function.close()
