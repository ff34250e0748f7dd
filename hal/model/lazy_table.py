"""Tables whose values lie in modules that are imported on first access."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class LazyTable(Mapping[_Key, _Value]):
    """A table in parts, each in a module whose keys are declared in advance.

    Iterating over the values imports all modules.

    Args:
        package: the package that the modules are in.
        modules: keys by name of the module in the package. A key is in one module only.
        part: returns the part of the table in a module.
    """

    def __init__(
        self,
        package: str,
        modules: Mapping[str, tuple[_Key, ...]],
        part: Callable[[ModuleType], Mapping[_Key, _Value]],
    ) -> None:
        self._modules = {key: f"{package}.{name}" for name, keys in modules.items() for key in keys}
        self._part = part
        self._known: dict[_Key, _Value] = {}

    def __getitem__(self, key: _Key) -> _Value:
        """Returns the value of a key."""
        if key not in self._known:
            self._known.update(self._part(import_module(self._modules[key])))
        return self._known[key]

    def get(self, key: _Key, default: Any = None) -> Any:
        """Returns the value of a key, or the default."""
        found = self._known.get(key)
        if found is not None:
            return found
        return self[key] if key in self._modules else default

    def __contains__(self, key: object) -> bool:
        """Returns True if the key exists."""
        return key in self._modules

    def __iter__(self) -> Iterator[_Key]:
        """Iterates over all keys."""
        return iter(self._modules)

    def __len__(self) -> int:
        """Returns the number of keys."""
        return len(self._modules)
