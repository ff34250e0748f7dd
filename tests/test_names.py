"""Names say what they stand for: public classes, limits, and functions that answer questions."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sources.mirror import SOURCES

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parent.parent

#: Public classes that several files define, with the reason.
SHARED: dict[str, str] = {
    "Burst": "the burst of a prepared model in the HAL, and that of a compilation in the client API",
    "Compiled": "the result of a driver's compiler",
    "CompiledModel": "LiteRT's class, and what runs a compilation's arrays",
    "Epilogue": "the epilogue of a contraction, as each compiling driver generates it",
    "Executable": "a compiled step, as each compiling driver runs it",
    "Instance": "the memory of one execution of a prepared model, in each compiling driver",
    "Interpreter": "LiteRT's class, and the interpreter that a daemon's clients share",
    "KernelCall": "the call of a kernel in an executable, in each compiling driver",
    "OpenExecutable": "a compiled step with open dimensions, as each compiling driver runs it",
    "Statements": "the writer of a kernel's statements, in each compiling driver",
}
#: Limits are called MAX_… and MIN_….
_OTHER_LIMIT = re.compile(r"_?(MOST|MAXIMUM|MINIMUM|LEAST)_\w+")
#: A function that is named as if it told whether something is so, and returns nothing.
_UNANSWERED = re.compile(r"def (_?(?:is|has|was|are|can)_\w+)\([^)]*\) -> None:")

#: A line that may define a public class at the top level of its file.
_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)


def _texts() -> Iterator[tuple[str, str]]:
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def public_classes(tree: ast.Module) -> set[str]:
    """Returns the names of the public classes that a file defines at its top level."""
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return {name for name in names if not name.startswith("_")}


def constants(tree: ast.Module) -> Iterator[str]:
    """Yields the names that a file assigns at its top level."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_a_public_class_name_has_one_definition() -> None:
    texts = dict(_texts())
    lines = Counter(name for text in texts.values() for name in set(_CLASS.findall(text)))
    files: dict[str, list[str]] = {}
    for path, text in texts.items():
        # Most files have no name of another one, and parsing all takes long.
        if any(lines[name] > 1 for name in _CLASS.findall(text)):
            for name in public_classes(ast.parse(text)):
                files.setdefault(name, []).append(path)
    repeated = {name: paths for name, paths in files.items() if len(paths) > 1}
    unexpected = {name: paths for name, paths in repeated.items() if name not in SHARED}
    assert unexpected == {}, "rename all but one, or add the name to SHARED with the reason"
    assert sorted(SHARED) == sorted(repeated), "SHARED has names with only one definition"


def test_limits_have_the_usual_prefix() -> None:
    found = {
        path: others
        for path, text in _texts()
        if _OTHER_LIMIT.search(text)
        and (others := [name for name in constants(ast.parse(text)) if _OTHER_LIMIT.fullmatch(name)])
    }
    assert found == {}, "limits are called MAX_… and MIN_…"


@pytest.mark.parametrize("folder", [*SOURCES, "tests"])
def test_functions_that_are_named_as_questions_return_an_answer(folder: str) -> None:
    paths = [path for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)]
    assert paths
    found = {path: _UNANSWERED.findall(path.read_text(encoding="utf-8")) for path in paths}
    unanswered = {str(path): names for path, names in found.items() if names}
    assert unanswered == {}, "name what they do: note_…, require_…, expect_…"


def test_functions_that_are_named_as_questions_are_found() -> None:
    text = (
        "def is_over() -> None: ...\n"
        "class C:\n    def _has_ended(\n        self, *, a: int\n    ) -> None: ...\n"
        "    def is_ready(self) -> bool: ...\ndef issue() -> None: ...\n"
    )
    assert _UNANSWERED.findall(text) == ["is_over", "_has_ended"]


def test_classes_and_constants_are_found() -> None:
    tree = ast.parse(
        "MAX_A = 1\n_MOST_B: int = 2\nclass C:\n    class D: ...\nclass _E: ...\ndef f(): MAXIMUM_F = 3\n"
    )
    assert public_classes(tree) == {"C"}
    assert list(constants(tree)) == ["MAX_A", "_MOST_B"]
    assert _OTHER_LIMIT.fullmatch("_MOST_B")
    assert not _OTHER_LIMIT.fullmatch("MAX_A")
