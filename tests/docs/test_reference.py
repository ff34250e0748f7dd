"""The API reference has every public name, and every public name has a docstring."""

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from support.sweeps import sweep

import neurald as nd
from neurald.hal import device, errors, registry, types

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
NAMES = [name for name in nd.__all__ if name != "__version__"]
#: What drivers may import besides; see docs/versioning.md.
HAL = (device, registry, types, errors)


def _entries(page: str) -> set[str]:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return set(re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE))


def test_the_reference_has_exactly_the_public_names() -> None:
    entries = _entries("api.md")
    # Classes of objects that calls return have longer paths.
    assert {name for name in entries if name.count(".") == 1} == {f"neurald.{name}" for name in NAMES}


def test_the_reference_has_the_modules_that_drivers_import() -> None:
    text = (REFERENCE / "hal.md").read_text(encoding="utf-8")
    assert {module.__name__ for module in (registry, errors)} <= _entries("hal.md")
    for module in (device, types):
        assert f"Import these from `{module.__name__}`" in text


def _members(value: type) -> Iterator[tuple[str, object]]:
    """Yields the public methods and properties that a class defines itself."""
    for name, member in vars(value).items():
        if not name.startswith("_") and isinstance(
            member, property | classmethod | staticmethod | type(_members)
        ):
            yield name, member


def _undocumented(value: object, name: str) -> Iterator[str]:
    own = vars(value).get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
    if not own or not own.strip():
        yield name
    if isinstance(value, type) and not issubclass(value, enum.Enum):
        for member_name, member in _members(value):
            if not inspect.getdoc(member):
                yield f"{name}.{member_name}"


@sweep("name", NAMES)
def test_a_public_name_has_a_docstring(name: str) -> None:
    assert not list(_undocumented(getattr(nd, name), name))


def _defined(module: object) -> list[str]:
    names = [name for name in vars(module) if not name.startswith("_")]
    values = ((name, getattr(module, name)) for name in getattr(module, "__all__", names))
    return [
        name
        for name, value in values
        if inspect.isfunction(value) or inspect.isclass(value)
        if (value.__module__ or "").startswith("neurald")
    ]


@sweep("module", HAL, ids=lambda module: module.__name__)
def test_names_for_drivers_have_docstrings(module: object) -> None:
    missing: list[str] = []
    for name in _defined(module):
        value = getattr(module, name)
        # Each of the errors is its result code.
        if not (inspect.isclass(value) and issubclass(value, nd.Error)):
            missing += _undocumented(value, name)
    assert not missing
