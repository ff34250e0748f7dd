"""Tests that fork are marked, so that each of them runs in a process of its own."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TESTS = Path(__file__).parent
#: What forks the process that calls it, as an attribute of `os` or as a function.
_FORKS = {"fork", "in_child"}
_ADVICE = "mark it with pytest.mark.forks: it would fork a process that has threads of other tests"


def _uses(function: ast.AST, names: set[str]) -> bool:
    """Returns whether a function uses one of the names, apart from those of its own strings."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr == "fork":
            if isinstance(node.value, ast.Name) and node.value.id == "os":
                return True
        elif isinstance(node, ast.Name) and node.id in names:
            return True
    return False


def _unmarked(source: str) -> list[str]:
    """Returns the unmarked tests of a file that fork, also through other functions of the file."""
    functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
    forking = {"in_child"}
    while added := {each.name for each in functions if _uses(each, forking)} - forking:
        forking |= added
    return [
        each.name
        for each in functions
        if each.name in forking
        and each.name.startswith("test_")
        and not any(ast.unparse(mark) == "pytest.mark.forks" for mark in each.decorator_list)
    ]


def _files() -> Iterator[Path]:
    """Yields the files of tests that may fork."""
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__) and any(name in path.read_text(encoding="utf-8") for name in _FORKS):
            yield path


def test_tests_that_fork_are_marked() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}::{name}"
        for path in _files()
        for name in _unmarked(path.read_text(encoding="utf-8"))
    ]
    assert not found, f"{found}: {_ADVICE}"


@pytest.mark.parametrize(
    ("body", "forks"),
    [
        ("os.fork()", True),
        ("in_child(work)", True),
        ("Thread(target=in_child)", True),
        ("helper()", True),
        ("run('os.fork()')", False),
        ("server.fork()", False),
    ],
)
def test_ways_to_fork(body: str, forks: bool) -> None:
    source = f"def helper():\n    os.fork()\n\n\ndef test_it():\n    {body}\n"
    assert _unmarked(source) == ["test_it"] * forks
    marked = source.replace("def test_it", "@pytest.mark.forks\ndef test_it")
    assert not _unmarked(marked)
