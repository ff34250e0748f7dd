"""Types are prepared for decoding by one thread at a time, everywhere in the project."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from support.sources.mirror import sources

from neurald.hal.decoding import converted, from_json, from_msgpack, json_decoder, msgpack_decoder

ROOT = Path(__file__).resolve().parents[2]
#: Functions of msgspec that prepare a type without a lock.
UNSAFE = {
    "msgspec.convert",
    "msgspec.json.Decoder",
    "msgspec.msgpack.Decoder",
    "msgspec.json.decode",
    "msgspec.msgpack.decode",
}
#: Files without it are not parsed.
MAY_DECODE = re.compile(r"msgspec.*(convert|ecode)")
#: Each round has new types, which four threads decode for the first time.
PROGRAM = """
import sys, threading
import msgspec
from neurald.hal.decoding import converted, from_json, from_msgpack

sys.setswitchinterval(1e-6)
wrong = []
for number in range(400):
    class Inner(msgspec.Struct, frozen=True):
        first: int = 0
        second: str = ""

    class Outer(msgspec.Struct, frozen=True):
        first: int = 0
        second: tuple[int, ...] = ()
        third: Inner | None = None
        fourth: list[Inner] = []

    value = Outer(5, (1, 2, 3), Inner(1, "q"), [Inner()])
    packed, text, plain = msgspec.msgpack.encode(value), msgspec.json.encode(value), msgspec.to_builtins(value)
    barrier = threading.Barrier(4)

    def run(way):
        barrier.wait()
        if way(packed, text, plain) != value:
            wrong.append(number)

    ways = [
        lambda packed, text, plain: from_msgpack(packed, Outer),
        lambda packed, text, plain: from_json(text, Outer),
        lambda packed, text, plain: converted(plain, Outer),
        lambda packed, text, plain: from_msgpack(packed, Outer | None),
    ]
    threads = [threading.Thread(target=run, args=(way,)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
sys.exit(1 if wrong else 0)
"""


class Pair(msgspec.Struct):
    first: int
    second: list[float] = []


def test_values_are_decoded() -> None:
    pair = Pair(1, [2.0])
    assert from_json(msgspec.json.encode(pair), Pair) == pair
    assert from_msgpack(msgspec.msgpack.encode(pair), Pair) == pair
    assert converted({"first": 1, "second": [2]}, Pair) == pair
    assert from_json(b"[[1, 2]]", tuple[list[int], ...]) == ([1, 2],)
    assert json_decoder(Pair) is json_decoder(Pair)
    assert msgpack_decoder(Pair) is msgpack_decoder(Pair)
    with pytest.raises(msgspec.ValidationError):
        from_json(b"{}", Pair)


def test_threads_may_use_a_type_for_the_first_time() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], timeout=120, check=False)
    assert done.returncode == 0


def test_nothing_else_decodes_types() -> None:
    found = []
    for path in sources(ROOT):
        text = (ROOT / path).read_text()
        if path == "hal/decoding.py" or not MAY_DECODE.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in UNSAFE:
                is_typed = len(node.args) > 1 or node.keywords or not name.endswith(".decode")
                found += [f"{path}:{node.lineno}: {name}"] if is_typed else []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("msgspec"):
                names = {alias.name for alias in node.names} & {"convert", "Decoder", "decode"}
                found += [f"{path}:{node.lineno}: {name}" for name in sorted(names)]
    assert not found, "use neurald.hal.decoding, which threads may share"
