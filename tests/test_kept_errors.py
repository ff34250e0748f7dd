"""Errors that code keeps, and raises later, keep no frames with the memory of calls.

An error that is raised refers to the frames that it passes. If one of these frames, or an object
that it uses, refers to the error, the memory of the call lasts until garbage is collected. An error
that several calls raise refers to the frames of all of them, and grows.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.sources.mirror import SOURCES

ROOT = Path(__file__).parent.parent
#: What is raised although a frame of the error refers to it, with the reason.
_ALLOWED = {
    ("service/cli/__init__.py", "error"): "the program ends with it",
}
#: Handlers that keep the error as it is until it is raised, when they forget it.
_FORGOTTEN = {("runtime/execution/program/overlapping_steps.py", "self._error")}


def forgotten(body: Sequence[ast.stmt]) -> set[str]:
    """Returns what the `finally` of a statement deletes, empties, or sets to None."""
    found = set()
    for each in (node for statement in body for node in ast.walk(statement)):
        match each:
            case ast.Delete(targets=targets):
                found |= {ast.unparse(target) for target in targets}
            case ast.Call(func=ast.Attribute(value=value, attr="clear")):
                found.add(ast.unparse(value))
            case ast.Assign(targets=[target], value=ast.Constant(value=None)):
                found.add(ast.unparse(target))
    return found


def as_they_are(value: ast.expr) -> Iterator[str]:
    """Yields the names whose values an expression may have."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.IfExp(body=first, orelse=second):
            yield from (*as_they_are(first), *as_they_are(second))
        case ast.BoolOp(values=values) | ast.Tuple(elts=values):
            for each in values:
                yield from as_they_are(each)


def is_kind(name: str) -> bool:
    """Returns True for the name of a class."""
    return name.rpartition(".")[2].lstrip("_")[:1].isupper()


def kept_errors(
    node: ast.AST, handled: frozenset[str] = frozenset(), ends: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """Yields what is raised although it is kept, and where the error of a handler is kept."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from kept_errors(child)
                continue
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last):
                within = ends | forgotten(last)
                yield from kept_errors(ast.Module([*body, *orelse], []), handled, within)
                for each in handlers:
                    names = handled if each.name is None else handled | {each.name}
                    yield from kept_errors(ast.Module(each.body, []), names, within)
                yield from kept_errors(ast.Module(last, []), handled, ends)
                continue
            case ast.Raise(exc=ast.Name() | ast.Attribute() | ast.Subscript() as raised):
                name = ast.unparse(raised)
                base = ast.unparse(raised.value) if isinstance(raised, ast.Subscript) else name
                if base not in ends and not is_kind(name):
                    yield "raise", name
            case ast.Assign(targets=[target], value=value) if handled.intersection(as_they_are(value)):
                yield "keep", ast.unparse(target)
        yield from kept_errors(child, handled, ends)


@pytest.mark.parametrize("folder", SOURCES)
def test_no_error_is_kept_by_a_frame_that_it_keeps(folder: str) -> None:
    wrong = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        file = str(path.relative_to(ROOT))
        for what, name in kept_errors(ast.parse(path.read_text(encoding="utf-8"))):
            is_list = "[" in name  # the list is emptied where the error is raised
            if (
                (file, name) not in _ALLOWED
                and (file, name) not in _FORGOTTEN
                and not (what == "keep" and is_list)
            ):
                wrong.append(f"{file}: {what} {name}")
    assert not wrong, "raise `copied` ones, keep them `with_traceback(None)`, or forget them in a `finally`"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("try: f()\nexcept E as e: raise", []),
        ("try: f()\nexcept E as e: raise e", [("raise", "e")]),
        ("try: f()\nexcept E as e: last = e", [("keep", "last")]),
        ("try: f()\nexcept E as e: self.last = None or e", [("keep", "self.last")]),
        ("try: f()\nexcept E as e: last = e.with_traceback(None)", []),
        ("raise self._error", [("raise", "self._error")]),
        ("raise copied(self._error)", []),
        ("try: raise self._error\nfinally: self._error = None", []),
        ("try: raise errors[0]\nfinally: errors.clear()", []),
        ("raise errors[0]", [("raise", "errors[0]")]),
        ("try: raise last from None\nfinally: del last", []),
        ("raise late", [("raise", "late")]),
        ("raise _ClientGone", []),
    ],
)
def test_kept_errors_are_found(source: str, expected: list[tuple[str, str]]) -> None:
    assert list(kept_errors(ast.parse(source))) == expected
