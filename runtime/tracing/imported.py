"""Calls a function for modules when they are imported, even if that is later."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(actions: Mapping[str, Callable[[], None]]) -> Callable[[], None]:
    """Calls a function for each module: at once if it is imported already, and else when it is.

    Args:
        actions: the functions, by the names of the modules.

    Returns:
        A function after whose call no more modules are watched.
    """
    waiting = dict(actions)
    finder = _Finder(waiting)
    # Before the look at the modules that exist, so that none is missed that another thread imports.
    sys.meta_path.insert(0, finder)
    for name in actions:
        if name in sys.modules:
            import_module(name)  # another thread may be about to import it
            if (action := waiting.pop(name, None)) is not None:
                action()
    return partial(sys.meta_path.remove, finder)


class _Finder:
    """Finds modules as the finders behind it do, and has them loaded by a `_Loader`.

    Args:
        waiting: the functions to call, each of which is removed before its call.
    """

    def __init__(self, waiting: dict[str, Callable[[], None]]) -> None:
        self._waiting = waiting

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to load a module; None for those that no trace point waits for."""
        finders = sys.meta_path.copy()
        if name not in self._waiting or self not in finders:
            return None
        for finder in finders[finders.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._waiting)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Loads one module as another loader does, and then calls the function for it.

    Args:
        loader: the other one, which the module has as its own.
        waiting: see `_Finder`.
    """

    def __init__(self, loader: Any, waiting: dict[str, Callable[[], None]]) -> None:
        self._loader = loader
        self._waiting = waiting

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Creates the module."""
        spec.loader = self._loader
        created: ModuleType | None = self._loader.create_module(spec)
        spec.loader = self  # type: ignore[assignment]
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Executes the module, and calls its function."""
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        if (action := self._waiting.pop(module.__name__, None)) is not None:
            action()
