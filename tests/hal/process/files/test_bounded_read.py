"""Bounded reads: their ends, their memory, and that large limits have no other reads."""

import ast
import io
import os
import tracemalloc
from pathlib import Path

import pytest
from support.sweeps import sweep

from neurald.hal.process.files.bounded_read import read_at_most

_ROOT = Path(__file__).resolve().parents[4]
#: Limits up to this many bytes may be allocated at once.
_SMALL_BYTES = 1 << 16


@sweep("size", [0, 1, 99, 100, 101, 1000, 1 << 16, (1 << 16) + 1])
@pytest.mark.parametrize("limit", [100, 1 << 16])
def test_what_is_there_up_to_one_byte_beyond_the_limit(limit: int, size: int) -> None:
    content = os.urandom(size)
    assert read_at_most(io.BytesIO(content), limit) == content[: limit + 1]


def test_a_pipe_that_gives_a_little_at_a_time() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as file:
        for part in (b"one ", b"two ", b"three"):
            os.write(writer, part)
        os.close(writer)
        assert read_at_most(file, 1 << 20) == b"one two three"


def test_memory_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with path.open("rb") as file:
        tracemalloc.start()
        try:
            assert read_at_most(file, 1 << 30) == b"content"
            assert tracemalloc.get_traced_memory()[1] < 1 << 18
        finally:
            tracemalloc.stop()


def _bounded_reads(tree: ast.Module) -> list[tuple[int, str]]:
    """Returns lines with `file.read(LIMIT)` or `file.read(LIMIT + 1)`, and the limits' names."""
    found = []
    # A request's body is awaited, and gathers its chunks.
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)) or id(node) in awaited:
            continue
        if node.func.attr != "read" or len(node.args) != 1 or node.keywords:
            continue
        of = node.args[0]
        size = of.left if isinstance(of, ast.BinOp) else of
        if isinstance(size, ast.Name) and size.id.lstrip("_").isupper():
            found.append((node.lineno, size.id))
    return found


def _value(tree: ast.Module, name: str) -> int | None:
    """Returns the constant with that name in a module; None if it is not a number written there."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            value: ast.expr = getattr(node, "value", None) or ast.Constant(0)
            kinds = ast.Constant | ast.BinOp | ast.operator
            if all(isinstance(each, kinds) for each in ast.walk(value)):
                return int(eval(ast.unparse(value)))
    return None


def test_large_limits_are_not_allocated() -> None:
    """`read` of a file object, and `os.read`, allocate as many bytes as they are asked for."""
    wrong = []
    for folder in ("hal", "runtime", "drivers", "service"):
        for path in sorted((_ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for line, name in _bounded_reads(tree):
                size = _value(tree, name)
                if size is not None and size > _SMALL_BYTES:
                    wrong.append(f"{path.relative_to(_ROOT)}:{line}: read({name}), which is {size} bytes")
    assert not wrong, wrong
