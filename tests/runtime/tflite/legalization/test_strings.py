"""Strings and hash tables of `.tflite` files; what is expected is what LiteRT's kernels give."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.operator import Load, fixed, shaped, types
from support.tflite.resources import branch, constant, counts_up_to, loop, stepped, variable

from neurald.hal.errors import BadData, OpFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime
from neurald.runtime.compilation import Compilation, CompilationBuilder
from neurald.runtime.tflite import load_tflite

WORDS = np.array([b"ab", b"", b"xyz\0q", b"\xff"], object)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.tflite"


def compiled(file: TfliteModel, path: Path) -> Compilation:
    return CompilationBuilder(load_tflite(file.write(path))).finish()


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


def test_hashtable_lookup(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    lookups = graph.tensor((3,), "INT32")
    found, hits = graph.tensor((3,), "STRING"), graph.tensor((3,), "UINT8")
    table = constant(graph, [1, 2, 3, 4], "INT32"), constant(graph, WORDS, "STRING")
    graph.operator("HASHTABLE_LOOKUP", (lookups, *table), (found, hits))
    graph.inputs, graph.outputs = (lookups,), (found, hits)
    results = compiled(file, path).run(np.array([1, 5, 3], np.int32))
    assert [result.tolist() for result in results] == [[b"ab", b"", b"xyz\0q"], [1, 0, 1]]


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


# Hash tables.


def table(graph: TfliteGraph, number: int = 7, key: int = 4, value: int = 5) -> int:
    """The handle of a table; types are numbers of `TensorType`: 4 INT64, 5 STRING."""
    handle = graph.tensor((1,), "RESOURCE")
    graph.operator(
        "HASHTABLE", (), (handle,), "HashtableOptions", TableId=number, KeyDtype=key, ValueDtype=value
    )
    return handle


def fill(graph: TfliteGraph, handle: int, keys: int, values: int) -> None:
    graph.operator("HASHTABLE_IMPORT", (handle, keys, values), (), "HashtableImportOptions")


def find(graph: TfliteGraph, handle: int, keys: int, default: Any, type_: str = "STRING") -> int:
    found = graph.tensor(graph.tensors[keys].shape, type_)
    graph.operator(
        "HASHTABLE_FIND", (handle, keys, constant(graph, default, type_)), (found,), "HashtableFindOptions"
    )
    return found


def size(graph: TfliteGraph, handle: int) -> int:
    count = graph.tensor((1,), "INT64")
    graph.operator("HASHTABLE_SIZE", (handle,), (count,), "HashtableSizeOptions")
    return count


def vocabulary(*, backwards: bool = False, queries: tuple[int, ...] = (4,)) -> TfliteModel:
    """A table that CALL_ONCE fills, twice with the same key, and once more in vain."""
    file = TfliteModel()
    main, inner = file.subgraph(), file.subgraph()
    main.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=1)
    kinds = {"key": 5, "value": 4} if backwards else {}
    key, value = ("STRING", "INT64") if backwards else ("INT64", "STRING")
    numbers, names = [3, 1, 3], [b"three", b"one\0", b"again"]
    pairs = (names, numbers) if backwards else (numbers, names)
    inside = table(inner, **kinds)
    fill(inner, inside, constant(inner, pairs[0], key), constant(inner, pairs[1], value))
    fill(inner, inside, constant(inner, pairs[0][1:], key), constant(inner, pairs[1][:2], value))
    handle = table(main, **kinds)
    query = main.tensor(queries, key)
    found = find(main, handle, query, [-1, -2] if backwards else [b"?", b"!"], value)
    main.inputs, main.outputs = (query,), (found, size(main, handle))
    return file


def test_a_table_filled_by_call_once_is_a_constant(path: Path) -> None:
    compilation = compiled(vocabulary(), path)
    assert compilation.model.state == ()
    assert types(compilation.model)[0] is OperationType.TFLITE_HASHTABLE_FIND
    found, count = compilation.run(np.array([1, 2, 3, -1]))
    assert (found.tolist(), count.tolist()) == ([b"one\0", b"?", b"three", b"?"], [2])


def test_strings_to_numbers_in_rows(path: Path) -> None:
    compilation = compiled(vocabulary(backwards=True, queries=(2, 2)), path)
    found, count = compilation.run([["three", b"one\0"], [b"one", b"again"]])
    assert (found.tolist(), count.tolist()) == ([[3, 1], [-1, 3]], [3])


def importing(type_: str = "STRING") -> TfliteModel:
    """A model that fills its table with what it is given, and then looks up."""
    file = TfliteModel()
    graph = file.subgraph()
    handle = table(graph)
    keys = graph.tensor((2,), "INT64", name="keys", shape_signature=(-1,))
    values = graph.tensor((2,), "STRING", name="values", shape_signature=(-1,))
    fill(graph, handle, keys, values)
    query = graph.tensor((2,), "INT64", name="query")
    found = find(graph, handle, query, [b"?"])
    graph.inputs, graph.outputs = (keys, values, query), (found, size(graph, handle))
    return file


def test_a_table_is_filled_once_per_compilation(path: Path) -> None:
    compilation = compiled(importing(), path)
    names = [variable.name for variable in compilation.model.state]
    assert names == ["hash table '7/keys'", "hash table '7/values'", "hash table '7/filled'"]
    long = b"x" * 5000
    for keys, values in (([1, 5, 1], [long, b"", b"y"]), ([2], [b"two"])):
        found, count = compilation.run(np.array(keys), np.array(values, object), np.array([1, 2]))
        assert (found.tolist(), count.tolist()) == ([long, b"?"], [2])
    assert compilation.state.value("hash table '7/values'").tolist() == [long, b""]
    compilation.state.reset()
    found, count = compilation.run(np.array([2]), np.array([b"two"], object), np.array([1, 2]))
    assert (found.tolist(), count.tolist()) == ([b"?", b"two"], [1])


def test_an_empty_import_fills_the_table(path: Path) -> None:
    compilation = compiled(importing(), path)
    for keys, values in (([], []), ([1], [b"one"])):
        found, count = compilation.run(np.array(keys, np.int64), np.array(values, object), np.array([1, 2]))
        assert (found.tolist(), count.tolist()) == ([b"?", b"?"], [0])


def test_a_failed_execution_does_not_change_the_table(path: Path) -> None:
    compilation = compiled(importing(), path)
    with pytest.raises(OpFailed, match="that of keys"):
        compilation.run(np.array([1]), np.array([b"a", b"b"], object), np.array([1, 2]))
    assert not compilation.state.value("hash table '7/filled'")


def test_tables_in_branches_and_loops(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    handle = table(main)
    holds, query, rounds = main.tensor((), "BOOL"), main.tensor((2,), "INT64"), main.tensor((), "INT32")
    found, after, count = main.tensor((2,), "STRING"), main.tensor((1,), "RESOURCE"), main.tensor((), "INT32")
    branches = []
    for number in range(2):
        branches.append(len(file.graphs))
        inner = file.subgraph()
        given, asked = inner.tensor((1,), "RESOURCE"), inner.tensor((2,), "INT64")
        fill(inner, given, constant(inner, [1], "INT64"), constant(inner, [b"%d" % number], "STRING"))
        inner.inputs, inner.outputs = (given, asked), (find(inner, given, asked, [b"?"]),)
    branch(main, (holds, handle, query), (found,), *branches)
    condition = len(file.graphs)
    counts_up_to(file, 3, {"shape": (1,), "type_": "RESOURCE"})
    body = file.subgraph()
    counter, stepped_counter = stepped(body)
    given = body.tensor((1,), "RESOURCE")
    fill(body, given, constant(body, [9], "INT64"), constant(body, [b"late"], "STRING"))
    body.inputs, body.outputs = (counter, given), (stepped_counter, given)
    loop(main, (rounds, handle), (count, after), condition, condition + 1)
    main.inputs, main.outputs = (holds, query, rounds), (found, count, size(main, handle))
    compilation = compiled(file, path)
    query_array, start = np.array([1, 9]), np.array(0, np.int32)
    for holds_now in (False, True):
        results = compilation.run(np.array(holds_now), query_array, start)
        assert [result.tolist() for result in results] == [[b"1", b"?"], 3, [1]]


def test_handles_of_equal_ids_share_a_table(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    first, again, other = table(graph), table(graph, key=5, value=4), table(graph, 8)
    fill(graph, first, constant(graph, [1], "INT64"), constant(graph, [b"a"], "STRING"))
    x = graph.tensor((1,), "INT64")
    graph.inputs, graph.outputs = (
        (x,),
        (
            find(graph, first, x, [b"?"]),
            size(graph, again),
            size(graph, other),
        ),
    )
    results = compiled(file, path).run(np.array([1]))
    assert [result.tolist() for result in results] == [[b"a"], [1], [0]]


def refused(file: TfliteModel, path: Path, *messages: str) -> None:
    with pytest.raises(BadData) as caught:
        load_tflite(file.write(path))
    for message in messages:
        assert message in str(caught.value)


@pytest.mark.parametrize(("key", "value"), [(4, 4), (5, 5), (2, 5), (4, 0)])
def test_refuses_other_types(path: Path, key: int, value: int) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.outputs = (size(graph, table(graph, key=key, value=value)),)
    refused(file, path, f"it has keys of type {key} and values of type {value}; INT64 and STRING")


def test_a_handle_that_is_not_of_a_table_is_refused(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    fed = graph.tensor((1,), "RESOURCE")
    graph.operator("READ_VARIABLE", (table(graph),), (graph.tensor((1,)),), "ReadVariableOptions")
    graph.operator("ASSIGN_VARIABLE", (table(graph), constant(graph, [1.0])), (), "AssignVariableOptions")
    graph.inputs, graph.outputs = (fed,), (size(graph, variable(graph, "v")), size(graph, fed))
    refused(
        file,
        path,
        "READ_VARIABLE: input 0 is a handle of a hash table",
        "ASSIGN_VARIABLE: input 0 is a handle of a hash table",
        "operator 5 HASHTABLE_SIZE: input 0 is a handle of something other",
        "operator 6 HASHTABLE_SIZE: input 0 is not a handle",
    )


def test_a_table_that_is_never_filled_is_refused(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1,), "INT64")
    graph.inputs, graph.outputs = (x,), (find(graph, table(graph), x, [b"?"]),)
    refused(file, path, "HASHTABLE_FIND", "nothing has been imported")


# Variables of strings.


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
    compilation = compiled(file, path)
    (operand,) = [o for o in compilation.model.main.operands if o.lifetime is Lifetime.SUBGRAPH_OUTPUT][:1]
    assert operand.dimensions == (0,)
    given = [[b"a" * 3000, b"", b"b"], [], [b"c"]]
    results = [compilation.run(np.array(strings, object))[0].tolist() for strings in given]
    assert results == [[b"first\0", b""], *given[:2]]
