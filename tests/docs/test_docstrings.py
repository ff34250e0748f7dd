"""Docstrings say what a thing is or does, and describe the parameters that there are."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest
from support.sources.mirror import SOURCES

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
FOLDERS = (*SOURCES, "benchmarks", "examples", "scripts", "tests")
#: A name of the library in a docstring or a comment.
_NAME = re.compile(r"`neurald((?:\.(?!v\d)\w+)+)`")
#: Names that only look like it: of files, and of units of systemd.
_FILES = (".toml", ".socket")
_QUESTION = re.compile(r'"""(?:Whether|What|How|Which|Where|Why)\b')
#: What a function does, or where that is said: "Returns ...", "See ...".
_DOES = re.compile(r"(?:See|\w+s)\b(?<!\bHas)(?<!\bIs)(?<!\bIts)(?<!\bThis)")
#: The docstrings of these functions are the rules that they check.
_RULES = "service/inference/conformance/checks.py"
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
#: A section, and its entries, each of which may describe several parameters.
_ARGS = re.compile(r"^Args:\n((?:    .*\n|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \w+)*):", re.MULTILINE)
_ODD_ENTRY = re.compile(r"^    (?! |\*{0,2}\w+(?:, \w+)*:).*$", re.MULTILINE)


def _described(docstring: str) -> list[str] | None:
    """Returns the names that a section of arguments describes; None if there is no section."""
    section = _ARGS.search(docstring + "\n")
    if section is None:
        return None
    odd = _ODD_ENTRY.findall(section[1])
    return [name.lstrip("*") for names in _ENTRY.findall(section[1]) for name in names.split(", ")] + odd


def _parameters(function: _FUNCTIONS) -> list[str]:
    arguments = function.args
    each = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    each += [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    return [argument.arg for argument in each if argument.arg not in ("self", "cls")]


def _documented(tree: ast.Module) -> Iterator[tuple[_FUNCTIONS | ast.ClassDef, _FUNCTIONS]]:
    """Yields what has a docstring, with the function whose parameters that describes."""
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            yield node, node
        elif isinstance(node, ast.ClassDef):
            yield from (
                (node, each)
                for each in node.body
                if isinstance(each, ast.FunctionDef) and each.name == "__init__"
            )


def _differences(text: str) -> Iterator[str]:
    """Yields the functions whose docstrings describe other parameters than they have."""
    for node, function in _documented(ast.parse(text)):
        described = _described(ast.get_docstring(node) or "")
        # A name with an underscore says that the parameter is not used.
        parameters = [name for name in _parameters(function) if not name.startswith("_")]
        if described is not None and sorted(described) != sorted(parameters):
            yield f"{node.name}: describes {described}, has {parameters}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_do_not_begin_with_a_question_word(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    assert not [str(path) for path in paths if _QUESTION.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_describe_all_parameters_and_no_others(folder: str) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py"))}
    assert any("    Args:\n" in text for text in texts.values())
    assert not [
        f"{path}: {each}"
        for path, text in texts.items()
        if "    Args:\n" in text
        for each in _differences(text)
    ]


def _says_no_action(text: str) -> Iterator[str]:
    """Yields the functions whose docstrings do not begin with what they do."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _FUNCTIONS) and not any(
            "property" in ast.unparse(each) for each in node.decorator_list
        ):
            docstring = ast.get_docstring(node)
            if docstring is not None and not _DOES.match(docstring):
                yield f"{node.name}: {docstring.splitlines()[0]}"


@pytest.mark.parametrize("folder", [*SOURCES, "benchmarks", "scripts"])
def test_docstrings_begin_with_what_a_function_does(folder: str) -> None:
    assert not [
        f"{path}: {each}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != ROOT / _RULES
        for each in _says_no_action(path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(
    ("function", "agrees"),
    [
        ('def f():\n    """Returns it."""', True),
        ('def f():\n    """See `g`."""', True),
        ('@property\ndef f(self):\n    """The number."""', True),
        ('def f():\n    """The number."""', False),
        ('def f():\n    """Is called by `g`."""', False),
        ('async def f():\n    """Its number."""', False),
    ],
)
def test_functions_that_do_not_say_what_they_do_are_found(function: str, agrees: bool) -> None:
    assert agrees == (not list(_says_no_action(function)))


def test_question_words_are_found() -> None:
    assert _QUESTION.search('    """' + "How many there are." + '"""')
    assert not _QUESTION.search('"""However it ends."""')


@pytest.mark.parametrize(
    ("signature", "section", "agrees"),
    [
        ("a, b=1, *, c", "a, b: x.\nc: y.", True),
        ("a, *rest, **more", "a: x.\nrest: y.\nmore: z.", True),
        ("a, _unused", "a: x.", True),
        ("a", "a: x that\n    goes: on.", True),
        ("a, b", "a: x.", False),
        ("a", "a: x.\nb: y.", False),
        ("a", "a: x that\ngoes on.", False),
    ],
)
def test_other_parameters_are_found(signature: str, section: str, agrees: bool) -> None:
    docstring = f'"""Does it.\n\nArgs:\n{indent(section, "    ")}\n\nReturns:\n    It.\n"""\n'
    function = f"def does({signature}):\n" + indent(docstring, "    ")
    assert agrees == (not list(_differences(function)))
    method = indent(f"{docstring}def __init__(self, {signature}): ...\n", "    ")
    assert agrees == (not list(_differences(f"class Does:\n{method}")))


def _resolves(name: str) -> bool:
    """Returns whether a dotted name is that of a module, or of something that one defines."""
    place, words = ROOT / "src" / "neurald", name.split(".")
    while words and (place / words[0]).is_dir():
        place /= words.pop(0)
    if words and (place / f"{words[0]}.py").is_file():
        return not words[1:] or words[1] in _defined(place / f"{words[0]}.py")
    return not words or words[0] in _defined(place / "__init__.py")


@functools.cache
def _defined(path: Path) -> frozenset[str]:
    """Returns the names that a module defines; those of a package may come from its modules."""
    text = path.read_text(encoding="utf-8")
    if path.name == "__init__.py":
        return frozenset(re.findall(r"\w+", text))
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, _FUNCTIONS | ast.ClassDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {each.id for each in targets if isinstance(each, ast.Name)}
    return frozenset(found)


@pytest.mark.parametrize("folder", SOURCES)
def test_names_of_the_library_exist(folder: str) -> None:
    stale = [
        f"{path}: neurald{name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in _NAME.findall(path.read_text(encoding="utf-8"))
        if not name.endswith(_FILES) and not _resolves(name[1:])
    ]
    assert not stale
