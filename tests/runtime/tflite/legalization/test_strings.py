"""Strings of `.tflite` files, against LiteRT's results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.operator import Load, fixed, shaped
from support.tflite.resources import constant, variable
from support.tflite.results import compile_file

from neurald.hal.errors import BadData
from neurald.hal.model.types import Lifetime
from neurald.runtime.compilation_builder import CompilationBuilder

WORDS = np.array([b"ab", b"", b"xyz\0q", b"\xff"], object)


def words(*shape: int, **fields: Any) -> dict[str, Any]:
    return shaped(*shape, type_="STRING", **fields)


@pytest.mark.parametrize("is_fed", [True, False], ids=["fed", "constant"])
@pytest.mark.parametrize(
    ("code", "others", "output", "options", "expected"),
    [
        ("RESHAPE", [fixed([2, -1], "INT32")], words(2, 2), {"options": "ReshapeOptions"}, WORDS.reshape(2, 2)),
        ("EXPAND_DIMS", [fixed([0], "INT32")], words(1, 4), {}, WORDS.reshape(1, 4)),
        ("SQUEEZE", [], words(4), {"options": "SqueezeOptions"}, WORDS),
        ("GATHER", [fixed([3, 0, 2], "INT64")], words(3), {"options": "GatherOptions"}, WORDS[[3, 0, 2]]),
        ("GATHER_ND", [fixed([[2], [1]], "INT32")], words(2), {}, WORDS[[2, 1]]),
        ("SLICE", [fixed([1], "INT32"), fixed([2], "INT32")], words(2), {}, WORDS[1:3]),
        (
            "STRIDED_SLICE",
            [fixed([2], "INT32"), fixed([3], "INT32"), fixed([1], "INT32")],
            words(),
            {"options": "StridedSliceOptions", "ShrinkAxisMask": 1},
            WORDS[2],
        ),
        ("TILE", [fixed([2], "INT32")], words(8), {}, np.tile(WORDS, 2)),
        ("EQUAL", [fixed([b"ab"], "STRING")], shaped(4, type_="BOOL"), {}, [True, False, False, False]),
        ("NOT_EQUAL", [fixed(WORDS[::-1], "STRING")], shaped(4, type_="BOOL"), {}, [True] * 4),
    ],
)  # fmt: skip
def test_operators_on_strings(
    load: Load,
    code: str,
    others: list[dict[str, Any]],
    output: dict[str, Any],
    options: dict[str, Any],
    expected: Any,
    is_fed: bool,
) -> None:
    source = words(4) if is_fed else fixed(WORDS, "STRING")
    model = load(code, [source, *others], output, **options)
    (result,) = CompilationBuilder(model).finish().run(*([WORDS] if is_fed else []))
    wanted = np.asarray(expected, result.dtype)
    assert result.shape == wanted.shape
    assert result.tolist() == wanted.tolist()


def test_fill_and_skip_gram(load: Load) -> None:
    model = load("FILL", [fixed([2, 1], "INT64"), words()], words(2, 1), "FillOptions")
    assert CompilationBuilder(model).finish().run(b"a\0")[0].tolist() == [[b"a\0"], [b"a\0"]]
    options = {"NgramSize": 2, "MaxSkipSize": 1, "IncludeAllNgrams": True}
    model = load("SKIP_GRAM", [words(1)], words(3), "SkipGramOptions", **options)
    compilation = CompilationBuilder(model).finish()
    assert compilation.run(["a b c"])[0].tolist() == [b"a b", b"a c", b"a", b"b c", b"b", b"c"]
    assert compilation.run(["a"])[0].tolist() == []


def test_shape_and_rank_are_known(load: Load) -> None:
    model = load("SHAPE", [words(4, 1)], shaped(2, type_="INT32"))
    assert CompilationBuilder(model).finish().run(WORDS.reshape(4, 1))[0].tolist() == [4, 1]


@pytest.mark.parametrize("code", ["LESS", "SELECT_V2", "MAXIMUM", "REVERSE_V2"])
def test_operators_that_refuse_strings(load: Load, code: str) -> None:
    others = {"SELECT_V2": [words(4), words(4)], "REVERSE_V2": [fixed([0], "INT32")]}.get(code, [words(4)])
    with pytest.raises(BadData, match=f"{code}: .*type TENSOR_STRING"):
        load(code, [words(4), *others], words(4))


@pytest.mark.parametrize(
    "content",
    [
        b"\x01",
        np.array([3, 20, 20, 20, 20], "<i4").tobytes(),
        np.array([4, 24, 24, 24, 24, 25], "<i4").tobytes(),
        np.array([4, 24, 25, 24, 24, 24], "<i4").tobytes() + b"a",
    ],
)
def test_a_damaged_constant_is_refused(load: Load, content: bytes) -> None:
    with pytest.raises(BadData, match="string buffer"):
        load("EQUAL", [words(4), {**words(4), "data": content}], shaped(4, type_="BOOL"))


def test_a_variable_of_strings_grows(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    main.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=1)
    inner = file.subgraph()
    start = constant(inner, [b"first\0", b""], "STRING")
    inner.operator("ASSIGN_VARIABLE", (variable(inner, "v"), start), (), "AssignVariableOptions")
    x, old = main.tensor((2,), "STRING", shape_signature=(-1,)), main.tensor((2,), "STRING")
    handle = variable(main, "v")
    main.operator("READ_VARIABLE", (handle,), (old,), "ReadVariableOptions")
    main.operator("ASSIGN_VARIABLE", (handle, x), (), "AssignVariableOptions")
    main.inputs, main.outputs = (x,), (old,)
    compilation = compile_file(file, path)
    (operand,) = [o for o in compilation.model.main.operands if o.lifetime is Lifetime.SUBGRAPH_OUTPUT][:1]
    assert operand.dimensions == (0,)
    given = [[b"a" * 3000, b"", b"b"], [], [b"c"]]
    results = [compilation.run(np.array(strings, object))[0].tolist() for strings in given]
    assert results == [[b"first\0", b""], *given[:2]]
