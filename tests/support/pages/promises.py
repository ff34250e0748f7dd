"""Promises in documents, each of which names the tests that fail if it is broken."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def functions(path: Path) -> frozenset[str]:
    """Returns the names of the functions in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def check_named_tests(text: str) -> None:
    """Fails unless a cell of a table names tests, nothing else, and all of them exist."""
    tests = NAMED_TEST.findall(text)
    assert tests
    assert NAMED_TEST.sub("", text).strip(", ") == "", "only tests are named"
    for path, name in tests:
        assert name.startswith("test_")
        assert name in functions(ROOT / path), f"{path}::{name}"
