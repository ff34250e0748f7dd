"""Tables whose values lie in modules that are imported when one of their keys is asked for."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class LazyTable(Mapping[_Key, _Value]):
    """A table in parts, each in a module. Which keys a module has is said beforehand; all of it is imported by whoever looks at all.

    Args:
        package: that the modules are in.
        modules: name of a module in the package → its keys. A key is in one module only.
        part: gives the part of the table that a module has.
    """

    def __init__(
        self,
        package: str,
        modules: Mapping[str, tuple[_Key, ...]],
        part: Callable[[ModuleType], Mapping[_Key, _Value]],
    ) -> None:
        self._homes = {key: f"{package}.{name}" for name, keys in modules.items() for key in keys}
        self._part = part
        self._known: dict[_Key, _Value] = {}

    def __getitem__(self, key: _Key) -> _Value:
        """The value of a key."""
        if key not in self._known:
            self._known.update(self._part(import_module(self._homes[key])))
        return self._known[key]

    def get(self, key: _Key, default: Any = None) -> Any:
        """The value of a key; the default where there is none."""
        found = self._known.get(key)
        if found is not None:
            return found
        return self[key] if key in self._homes else default

    def __contains__(self, key: object) -> bool:
        """Whether there is such a key."""
        return key in self._homes

    def __iter__(self) -> Iterator[_Key]:
        """All keys."""
        return iter(self._homes)

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._homes)
