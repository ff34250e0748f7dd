from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.operator import types
from support.tflite.resources import branch, constant, counts_up_to, loop, stepped, variable
from support.tflite.results import compile_file

from neurald.hal.errors import BadData, OpFailed
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite import load_tflite

WORDS = np.array([b"ab", b"", b"xyz\0q", b"\xff"], object)


def table(graph: TfliteGraph, number: int = 7, key: int = 4, value: int = 5) -> int:
    """Adds a handle of a table; types are numbers of `TensorType`: 4 INT64, 5 STRING."""
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
    """Builds a table that CALL_ONCE fills, with a duplicate key and a second import."""
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


def importing(type_: str = "STRING") -> TfliteModel:
    """Builds a model that fills its table with its inputs, and then looks up keys."""
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


def refused(file: TfliteModel, path: Path, *messages: str) -> None:
    with pytest.raises(BadData) as caught:
        load_tflite(file.write(path))
    for message in messages:
        assert message in str(caught.value)


def test_hashtable_lookup(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    lookups = graph.tensor((3,), "INT32")
    found, hits = graph.tensor((3,), "STRING"), graph.tensor((3,), "UINT8")
    table = constant(graph, [1, 2, 3, 4], "INT32"), constant(graph, WORDS, "STRING")
    graph.operator("HASHTABLE_LOOKUP", (lookups, *table), (found, hits))
    graph.inputs, graph.outputs = (lookups,), (found, hits)
    results = compile_file(file, path).run(np.array([1, 5, 3], np.int32))
    assert [result.tolist() for result in results] == [[b"ab", b"", b"xyz\0q"], [1, 0, 1]]


def test_a_table_filled_by_call_once_is_a_constant(path: Path) -> None:
    compilation = compile_file(vocabulary(), path)
    assert compilation.model.state == ()
    assert types(compilation.model)[0] is OperationType.TFLITE_HASHTABLE_FIND
    found, count = compilation.run(np.array([1, 2, 3, -1]))
    assert (found.tolist(), count.tolist()) == ([b"one\0", b"?", b"three", b"?"], [2])


def test_strings_to_numbers_in_rows(path: Path) -> None:
    compilation = compile_file(vocabulary(backwards=True, queries=(2, 2)), path)
    found, count = compilation.run([["three", b"one\0"], [b"one", b"again"]])
    assert (found.tolist(), count.tolist()) == ([[3, 1], [-1, 3]], [3])


def test_a_table_is_filled_once_per_compilation(path: Path) -> None:
    compilation = compile_file(importing(), path)
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
    compilation = compile_file(importing(), path)
    for keys, values in (([], []), ([1], [b"one"])):
        found, count = compilation.run(np.array(keys, np.int64), np.array(values, object), np.array([1, 2]))
        assert (found.tolist(), count.tolist()) == ([b"?", b"?"], [0])


def test_constants_without_strings_fill_the_table(path: Path) -> None:
    """In a file, no strings have bytes: those of their number."""
    file = TfliteModel()
    graph = file.subgraph()
    handle = table(graph)
    fill(graph, handle, constant(graph, np.zeros(0, np.int64), "INT64"), constant(graph, [], "STRING"))
    query = graph.tensor((2,), "INT64")
    graph.inputs, graph.outputs = (query,), (find(graph, handle, query, [b"?"]), size(graph, handle))
    found, count = compile_file(file, path).run(np.array([1, 2]))
    assert (found.tolist(), count.tolist()) == ([b"?", b"?"], [0])


def test_a_failed_execution_does_not_change_the_table(path: Path) -> None:
    compilation = compile_file(importing(), path)
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
    compilation = compile_file(file, path)
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
    results = compile_file(file, path).run(np.array([1]))
    assert [result.tolist() for result in results] == [[b"a"], [1], [0]]


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
