"""The finder of the package's modules says what Python's own search does."""

import os
import subprocess
import sys
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path
from pkgutil import iter_modules

import pytest

import neurald
from neurald._module_finder import ModuleFinder

pytestmark = pytest.mark.quick

FOLDER = Path(neurald.__file__).parent


def test_modules_are_found_as_by_the_search() -> None:
    finder, pending, count = ModuleFinder("neurald"), [("neurald", [str(FOLDER)])], 0
    while pending:
        package, path = pending.pop()
        for module in iter_modules(path):
            name = f"{package}.{module.name}"
            found, expected = finder.find_spec(name, path), PathFinder.find_spec(name, path)
            assert found is not None
            assert expected is not None
            assert (found, found.cached, found.has_location) == (expected, expected.cached, True), name
            assert type(found.loader) is type(expected.loader)
            count += 1
            if found.submodule_search_locations is not None:
                pending.append((name, found.submodule_search_locations))
    assert count > 500


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("neurald.missing", [str(FOLDER)]),
        ("neurald.hal", None),
        ("neurald.hal", []),
        ("neurald.hal", [str(FOLDER / "missing"), str(FOLDER)]),
        ("neuraldo.hal", [str(FOLDER)]),
    ],
)
def test_other_modules_are_left_to_the_search(name: str, path: list[str] | None) -> None:
    assert ModuleFinder("neurald").find_spec(name, path) is None


def _printed(code: str, path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout.strip()


def test_hooks_of_tools_come_first() -> None:
    code = """
import sys

class Hook:
    asked = []

    def find_spec(self, name, path=None, target=None):
        self.asked.append(name)

sys.meta_path.insert(0, Hook())
import neurald.hal.errors
from neurald._module_finder import ModuleFinder

kinds = [type(each) for each in sys.meta_path]
print("neurald.hal.errors" in Hook.asked, kinds.count(ModuleFinder), kinds.index(ModuleFinder) > 0)
"""
    assert _printed(code, FOLDER.parent) == "True 1 True"


def test_archives_are_searched_as_usual(tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for name in ("__init__.py", "_module_finder.py", "_version.py"):
            written.write(FOLDER / name, f"neurald/{name}")
    code = """
import sys
import neurald

print(neurald.__file__.endswith("package.zip/neurald/__init__.py"))
print("ModuleFinder" in [type(each).__name__ for each in sys.meta_path])
"""
    assert _printed(code, archive).split() == ["True", "False"]
