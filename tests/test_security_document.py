"""Every promise in SECURITY.md names an existing test."""

import ast
import re
from functools import cache
from pathlib import Path

from support.sweeps import sweep

ROOT = Path(__file__).parents[1]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_HEADING = re.compile(r"\| \w+ cannot \| test \|")


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def promises() -> list[str]:
    """Returns the rows of all tables of promises."""
    rows: list[str] = []
    is_promise = False
    for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines():
        if _HEADING.fullmatch(line):
            is_promise = True
        elif not line.startswith("|"):
            is_promise = False
        elif is_promise and not line.startswith("| ---"):
            rows.append(line)
    return rows


@sweep("promise", promises(), ids=lambda row: row.split("|")[1].strip()[:60])
def test_a_promise_names_tests_that_exist(promise: str) -> None:
    text, named = promise.strip("| ").rsplit(" | ", 1)
    assert text
    tests = _TEST.findall(named)
    assert tests
    assert _TEST.sub("", named).strip(", ") == "", "only tests are named"
    for path, name in tests:
        assert name.startswith("test_")
        assert name in functions(ROOT / path), f"{path}::{name}"


def test_every_party_is_promised_something() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    for party in (
        "A hostile model",
        "A local client of a daemon",
        "Another user of this machine",
        "A remote client",
        "A hostile or compromised driver",
        "A cache writer",
    ):
        assert _TEST.search(sections[party]), party
    assert len(promises()) > 40


def test_no_test_is_named_outside_of_promises() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert len(_TEST.findall(text)) == sum(len(_TEST.findall(row)) for row in promises())
