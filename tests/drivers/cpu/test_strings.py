"""Models with strings are compiled, and compute what references do."""

import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.control_flow import BOOL, INT, Graph, T
from support.sweeps import sweep
from support.tflite import resources
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice, process_settings
from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.cpu.native.python_calls.python_call import python_table
from neurald.drivers.cpu.open_model import CpuOpenModel
from neurald.drivers.cpu.parts.native_segment import NativeSegment
from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel
from neurald.drivers.cpu.parts.stored_parts import read_parts, write_parts
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.target.target import host_target
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import Artifact, ExecuteOptions, PrepareOptions
from neurald.hal.memory.pool import HostMemory
from neurald.hal.operations.machinery.call import Array

pytestmark = pytest.mark.skipif(not python_table(), reason="needs CPython's layouts")

Op = nd.OperationType
STRING, LONG = T.TENSOR_STRING, T.TENSOR_INT64


def strings(values: Sequence[bytes], *shape: int) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape or (len(values),))


def words(count: int, seed: int = 0, *, vocabulary: int = 40) -> Array:
    """Returns strings of 0 to 40 bytes, of which some are equal but not the same object."""
    generator = random.Random(seed)
    return strings([b"%d" % (n := generator.randrange(vocabulary)) * (n % 21) for _ in range(count)])


def constant(graph: Graph, kind: nd.OperandType, values: Any) -> int:
    array = values if isinstance(values, np.ndarray) else np.array(values)
    index = graph.builder.add_operand(kind, array.shape)
    graph.builder.set_operand_value(index, array)
    return index


def number(graph: Graph, value: int) -> int:
    index = graph.builder.add_operand(T.INT32)
    graph.builder.set_operand_value(index, value)
    return index


def gathered(graph: Graph, source: int, indexes: int, count: int) -> int:
    result = graph.value(STRING, (count,))
    zero = number(graph, 0)
    graph.builder.add_operation(Op.TFLITE_GATHER, [source, zero, indexes, zero], [result])
    return result


def prepared(model: nd.Model) -> PartlyCompiledModel:
    """Prepares a model, which must be compiled as a whole."""
    found = CpuDevice().prepare_model(model, PrepareOptions())
    assert isinstance(found, PartlyCompiledModel)
    (step,) = found.steps[0]
    assert isinstance(step, NativeSegment)
    return found


def assert_same(model: nd.Model, *arrays: Array, runs: int = 3) -> list[list[Any]]:
    """Compares the results of compiled code, on all paths, with those of the references."""
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    wanted = [each.tolist() for each in reference.run(*arrays)]
    for _ in range(runs):
        assert [each.tolist() for each in compiled.run(*arrays)] == wanted
    (step,) = prepared(model).steps[0]
    assert isinstance(step, NativeSegment)
    found = step.native.run_arrays(arrays)
    assert [each.tolist() for each in found] == wanted
    execution = nd.Execution(compiled, reusable=True)
    for position, array in enumerate(arrays):
        execution.set_input(position, array)
    targets = [np.empty(np.shape(each), array.dtype) for each, array in zip(wanted, found, strict=True)]
    for position, array in enumerate(targets):
        execution.set_output(position, array)
    for _ in range(2):
        execution.compute()
        assert [each.tolist() for each in targets] == wanted
    return wanted


def comparison(
    kind: nd.OperationType, one: Sequence[int], other: Sequence[int], result: Sequence[int]
) -> nd.Model:
    graph = Graph()
    first, second, same = graph.value(STRING, one), graph.value(STRING, other), graph.value(BOOL, result)
    graph.builder.add_operation(kind, [first, second], [same])
    return graph.finish([first, second], [same])


@sweep("kind", [Op.TFLITE_EQUAL, Op.TFLITE_NOT_EQUAL])
@sweep(
    ("one", "other", "result"),
    [((60,), (60,), (60,)), ((1,), (3, 4), (3, 4)), ((3, 1), (1, 4), (3, 4)), ((1,), (1,), (1,))],
)
def test_comparisons(kind: nd.OperationType, one: Any, other: Any, result: Any) -> None:
    counts = [int(np.prod(shape)) for shape in (one, other)]
    arrays = [
        words(count, n).reshape(shape)
        for n, (count, shape) in enumerate(zip(counts, (one, other), strict=True))
    ]
    assert_same(comparison(kind, one, other, result), *arrays)


@sweep("length", [0, 1, 7, 8, 9, 15, 16, 17, 64, 1000])
def test_strings_that_differ_in_one_byte(length: int) -> None:
    generator = random.Random(length)
    base = generator.randbytes(length)
    others = [base, base + b"\0", base[:-1], bytes([*base])]
    for at in range(length):
        others.append(base[:at] + bytes([base[at] ^ 128]) + base[at + 1 :])
    model = comparison(Op.TFLITE_EQUAL, (1,), (len(others),), (len(others),))
    assert_same(model, strings([base]), strings(others), runs=1)


def table(folder: Path, keys: Array, values: Array, shape: tuple[int, ...], default: Any) -> nd.Model:
    """Loads a model that looks up keys in a table that CALL_ONCE fills, and counts its keys."""
    file = TfliteModel()
    main, inner = file.subgraph(), file.subgraph()
    main.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=1)
    kinds = ["STRING" if each.dtype == object else "INT64" for each in (keys, values)]
    handles = []
    for graph in (main, inner):
        handles.append(graph.tensor((1,), "RESOURCE"))
        key, value = (5, 4) if kinds[0] == "STRING" else (4, 5)
        graph.operator(
            "HASHTABLE", (), handles[-1:], "HashtableOptions", TableId=1, KeyDtype=key, ValueDtype=value
        )
    pairs = [resources.constant(inner, each, kind) for each, kind in zip((keys, values), kinds, strict=True)]
    inner.operator("HASHTABLE_IMPORT", (handles[1], *pairs), (), "HashtableImportOptions")
    query, found = (main.tensor(shape, kind) for kind in kinds)
    missing, count = resources.constant(main, default, kinds[1]), main.tensor((1,), "INT64")
    main.operator("HASHTABLE_FIND", (handles[0], query, missing), (found,), "HashtableFindOptions")
    main.operator("HASHTABLE_SIZE", handles[:1], (count,), "HashtableSizeOptions")
    main.inputs, main.outputs = (query,), (found, count)
    return nd.load_tflite(file.write(folder / "table.tflite"))


@sweep("count", [0, 1, 2, 7, 300, 3000])
def test_tables_of_strings(count: int, tmp_path: Path) -> None:
    keys = strings([b"%d" % n * (n % 9) + b"\0" * (n % 3 == 0) + b"%d" % n for n in range(count)])
    model = table(tmp_path, keys, np.arange(count) * 3 - 1, (5, 8), [-7, 1])
    for seed in range(3):
        generator = random.Random(seed)
        asked = [
            bytes([*keys[generator.randrange(count)]]) if count and generator.random() < 0.7 else b"%d" % n
            for n in range(40)
        ]
        assert_same(model, strings(asked, 5, 8), runs=1)


@sweep("count", [0, 1, 100, 300])
def test_tables_of_numbers(count: int, tmp_path: Path) -> None:
    model = table(tmp_path, np.arange(count) * 3, words(count), (9,), [b"missing", b"not taken"])
    assert_same(model, np.array([0, 3, 4, -3, 297, 2**40, 30, 6, 897]))


def test_empty_strings(tmp_path: Path) -> None:
    model = table(tmp_path, strings([b""]), np.array([5]), (3,), [0])
    assert assert_same(model, strings([b"", b"\0", b"x"]))[0] == [5, 0, 0]


def test_lists_of_keys() -> None:
    graph = Graph()
    lookups = graph.value(INT, (4,))
    hits = graph.builder.add_operand(T.TENSOR_QUANT8_ASYMM, (4,), scale=1.0)
    rows = graph.value(STRING, (4, 2))
    keys, values = (
        constant(graph, INT, np.array([3, 1, 7], np.int32)),
        constant(graph, STRING, words(6).reshape(3, 2)),
    )
    graph.builder.add_operation(Op.TFLITE_HASHTABLE_LOOKUP, [lookups, keys, values], [rows, hits])
    model = graph.finish([lookups], [rows, hits])
    found = assert_same(model, np.array([1, 3, 9, 7], np.int32))
    assert found[0][2] == [b"", b""]


def moved() -> nd.Model:
    """Creates a model that moves strings of inputs and constants, and compares them at the end."""
    graph = Graph()
    source, index = graph.value(STRING, (3, 4)), graph.value(LONG, (8,))
    flat, picked, named = graph.value(STRING, (12,)), graph.value(STRING, (8,)), graph.value(STRING, (8,))
    cut, tiled, same = graph.value(STRING, (6,)), graph.value(STRING, (12,)), graph.value(BOOL, (12,))
    names = constant(graph, STRING, words(12, 7))
    add, zero = graph.builder.add_operation, number(graph, 0)
    add(Op.TFLITE_RESHAPE, [source, constant(graph, INT, np.array([12], np.int32))], [flat])
    add(Op.TFLITE_GATHER, [flat, zero, index, zero], [picked])
    add(Op.TFLITE_GATHER, [names, zero, index, zero], [named])
    begin, size = (constant(graph, INT, np.array([each], np.int32)) for each in (2, 6))
    add(Op.TFLITE_SLICE, [picked, begin, size], [cut])
    add(Op.TFLITE_TILE, [cut, constant(graph, INT, np.array([2], np.int32))], [tiled])
    add(Op.TFLITE_NOT_EQUAL, [tiled, flat], [same])
    return graph.finish([source, index], [named, tiled, same])


def test_movement() -> None:
    model = moved()
    for seed in range(4):
        index = np.random.default_rng(seed).integers(0, 12, 8)
        assert_same(model, words(12, seed).reshape(3, 4), index)


def test_strings_that_are_only_inside() -> None:
    graph = Graph()
    index, same = graph.value(LONG, (6,)), graph.value(BOOL, (6,))
    names = constant(graph, STRING, words(5))
    picked = gathered(graph, names, index, 6)
    graph.builder.add_operation(Op.TFLITE_EQUAL, [picked, constant(graph, STRING, words(6, 3))], [same])
    model = graph.finish([index], [same])
    compiled, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    for seed in range(3):
        indexes = np.random.default_rng(seed).integers(0, 5, 6)
        np.testing.assert_array_equal(compiled.run(indexes)[0], reference.run(indexes)[0])
    assert not isinstance(CpuDevice().prepare_model(model, PrepareOptions()), PartlyCompiledModel)


def test_branches() -> None:
    graph, then, other = Graph(), Graph(), Graph()
    source = then.value(STRING, (4,))
    reverse = constant(then, LONG, np.array([3, 2, 1, 0]))
    swapped = then.finish([source], [gathered(then, source, reverse, 4)])
    ignored = other.value(STRING, (4,))
    index = constant(other, LONG, np.array([0, 0, 2, 1]))
    fixed = other.finish([ignored], [gathered(other, constant(other, STRING, words(3, 5)), index, 4)])
    condition, source, result = graph.value(BOOL, (1,)), graph.value(STRING, (4,)), graph.value(STRING, (4,))
    models = [graph.model(swapped), graph.model(fixed)]
    graph.builder.add_operation(Op.IF, [condition, *models, source], [result])
    model = graph.finish([condition, source], [result])
    for holds in (True, False):
        assert_same(model, np.array([holds]), words(4, 2))


def rotating(turns: int) -> nd.Model:
    """Creates a loop that rotates a list of strings."""
    graph, body = Graph(), Graph()
    counter, texts, after = body.value(INT, (1,)), body.value(STRING, (4,)), body.value(INT, (1,))
    body.binary(Op.ADD, counter, constant(body, INT, np.array([1], np.int32)), after)
    index = constant(body, LONG, np.array([1, 2, 3, 0]))
    inner = body.finish([counter, texts], [after, gathered(body, texts, index, 4)])
    counter, texts = graph.value(INT, (1,)), graph.value(STRING, (4,))
    outputs = [graph.value(INT, (1,)), graph.value(STRING, (4,))]
    models = [graph.model(below(turns, (STRING, (4,)))), graph.model(inner)]
    graph.builder.add_operation(Op.WHILE, [*models, counter, texts], outputs)
    return graph.finish([counter, texts], outputs)


def below(limit: int, *others: tuple[nd.OperandType, tuple[int, ...]]) -> nd.Model:
    """Creates (counter, ...) -> counter < limit."""
    graph = Graph()
    values = [graph.value(INT, (1,)), *(graph.value(*each) for each in others)]
    holds, bound = graph.value(BOOL, (1,)), constant(graph, INT, np.array([limit], np.int32))
    graph.builder.add_operation(Op.LESS, [values[0], bound], [holds])
    return graph.finish(values, [holds])


def growing(turns: int, first: tuple[int, int] = (2, 3)) -> nd.Model:
    """Creates a loop that appends to a list of numbers, and looks up a string for each of them."""
    graph, body = Graph(), Graph()
    counter, after = body.value(INT, (1,)), body.value(INT, (1,))
    numbers, longer = body.value(INT, (0,)), body.value(INT, (0,))
    texts, following = body.value(STRING, (0,)), body.value(STRING, (0,))
    zero = number(body, 0)
    body.binary(Op.ADD, counter, constant(body, INT, np.array([1], np.int32)), after)
    add = body.builder.add_operation
    add(
        Op.TFLITE_CONCATENATION,
        [numbers, constant(body, INT, np.array([turns % 5], np.int32)), zero],
        [longer],
    )
    add(Op.TFLITE_GATHER, [constant(body, STRING, words(7, 9)), zero, longer, zero], [following])
    inner = body.finish([counter, numbers, texts], [after, longer, following])
    inputs = [graph.value(INT, (1,)), graph.value(INT, first[:1]), graph.value(STRING, first[1:])]
    outputs = [graph.value(INT, (1,)), graph.value(INT, (0,)), graph.value(STRING, (0,))]
    models = [graph.model(below(turns, (INT, (0,)), (STRING, (0,)))), graph.model(inner)]
    graph.builder.add_operation(Op.WHILE, [*models, *inputs], outputs)
    return graph.finish(inputs, outputs)


@sweep("turns", [0, 3, 200, 1001])
def test_loops(turns: int) -> None:
    assert_same(rotating(turns), np.zeros(1, np.int32), words(4, 3))


@sweep("turns", [0, 6, 300])
def test_lists_that_grow(turns: int) -> None:
    arrays = np.zeros(1, np.int32), np.array([6, 2], np.int32), words(3, 3)
    found = assert_same(growing(turns), *arrays)
    assert len(found[2]) == (turns + 2 if turns else 3)


def opened(model: nd.Model, *shapes: tuple[int, ...]) -> CpuOpenModel:
    """Compiles a model for any lengths of its open dimensions, and restores its artifact."""
    device = CpuDevice()
    preparation = Preparation(host_target(process_settings()), 1, keeps_artifact=True)
    found = preparation.open(model, dict(zip(model.main.inputs, shapes, strict=True)))
    assert found is not None
    return ArtifactLoader(device._target, threads=1).restore_open(model, found.artifact())


def test_open_lengths() -> None:
    graph = Graph()
    source, other, index = graph.value(STRING, (0, 3)), graph.value(STRING, (0, 3)), graph.value(LONG, (0,))
    same, rows = graph.value(BOOL, (0, 3)), graph.value(STRING, (0, 3))
    zero = number(graph, 0)
    graph.builder.add_operation(Op.TFLITE_EQUAL, [source, other], [same])
    graph.builder.add_operation(Op.TFLITE_GATHER, [other, zero, index, zero], [rows])
    model = graph.finish([source, other, index], [same, rows])
    open_model = opened(model, (5, 3), (5, 3), (4,))
    reference = nd.CompilationBuilder(model, [ReferenceDevice()]).finish()
    for count, picked in ((2, 9), (5, 4), (700, 333), (3, 2)):
        arrays: list[Array] = [words(3 * count, seed, vocabulary=5).reshape(count, 3) for seed in range(2)]
        arrays.append(np.random.default_rng(count).integers(0, count, picked))
        shapes = [each.shape for each in arrays]
        sized = open_model.for_shapes(shapes)
        assert sized is not None
        variant = sized.prepared
        assert isinstance(variant, PartlyCompiledModel)
        function = variant.create_array_function(shapes, ())
        assert function is not None
        found = function(*arrays)
        assert found is not None
        assert [each.tolist() for each in found] == [each.tolist() for each in reference.run(*arrays)]
    compiled = nd.CompilationBuilder(model, [CpuDevice()]).finish()
    for count in (0, 1, 2, 6):
        arrays = [words(3 * count, seed).reshape(count, 3) for seed in range(2)]
        arrays.append(np.zeros(min(count, 1), np.int64))
        wanted = [each.tolist() for each in reference.run(*arrays)]
        assert [each.tolist() for each in compiled.run(*arrays)] == wanted


def test_open_lengths_of_lists_that_grow() -> None:
    model = growing(40, first=(0, 0))
    open_model = opened(model, (1,), (2,), (3,))
    reference = nd.CompilationBuilder(model, [ReferenceDevice()]).finish()
    for count in (2, 5, 90):
        arrays = np.zeros(1, np.int32), np.full(count, 3, np.int32), words(count + 1, count)
        sized = open_model.for_shapes([each.shape for each in arrays])
        assert sized is not None
        variant = sized.prepared
        assert isinstance(variant, PartlyCompiledModel)
        (step,) = variant.steps[0]
        assert isinstance(step, NativeSegment)
        results = step.run(arrays, ExecuteOptions())
        assert results is not None
        assert [each.tolist() for each, _ in results] == [each.tolist() for each in reference.run(*arrays)]


def test_references_are_counted() -> None:
    graph = Graph()
    source, result = graph.value(STRING, (700,)), graph.value(STRING, (1400,))
    twice = constant(graph, INT, np.array([2], np.int32))
    graph.builder.add_operation(Op.TFLITE_TILE, [source, twice], [result])
    compilation = nd.CompilationBuilder(graph.finish([source], [result]), [CpuDevice()]).finish()
    held = bytes([*b"a string of its own"])
    array = strings([held] * 700)
    before = sys.getrefcount(held)
    for _ in range(5):
        (found,) = compilation.run(array)
        assert sys.getrefcount(held) == before + 1400
        assert found[1399] is held
        del found
    assert sys.getrefcount(held) == before


def test_what_is_not_bytes() -> None:
    compilation = nd.CompilationBuilder(comparison(Op.TFLITE_EQUAL, (2,), (2,), (2,)), [CpuDevice()]).finish()
    given = strings([b"a", "ü".encode()])
    for _ in range(3):
        assert compilation.run(given, given)[0].tolist() == [True, True]
        assert compilation.run(given, np.array(["a", "ü"]))[0].tolist() == [True, True]
        assert compilation.run(given, ["a", b"b"])[0].tolist() == [True, False]
    for wrong in (np.empty(2, object), np.array([b"a", 3], object), np.array([None, b""], object)):
        with pytest.raises(nd.Error, match="bytes or str"):
            compilation.run(given, wrong)


def test_other_threads_replace_strings() -> None:
    """Long steps release the GIL; what they read is kept alive."""
    count = 20_000
    graph = Graph()
    source, result = graph.value(STRING, (count,)), graph.value(BOOL, (count,))
    graph.builder.add_operation(
        Op.TFLITE_EQUAL, [source, constant(graph, STRING, strings([b"even" * 9]))], [result]
    )
    compilation = nd.CompilationBuilder(graph.finish([source], [result]), [CpuDevice()]).finish()
    array = strings([b"even" * (9 + n % 2) for n in range(count)])
    is_done = threading.Event()

    def replace() -> None:
        generator = random.Random(1)
        while not is_done.is_set():
            for at in generator.sample(range(count), 50):
                array[at] = b"even" * (9 + at % 2) + b""[:0]
            array[:] = [b"even" * (9 + n % 2) for n in range(count)]

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(40):
            (found,) = compilation.run(array)
            assert found.tolist() == [n % 2 == 0 for n in range(count)]
    finally:
        is_done.set()
        thread.join()


def test_artifacts_and_damaged_references() -> None:
    """References come from constants, which are not trusted."""
    graph = Graph()
    index = graph.value(LONG, (4,))
    model = graph.finish([index], [gathered(graph, constant(graph, STRING, words(9, 4)), index, 4)])
    device = CpuDevice()
    artifact = write_parts(prepared(model).steps)
    assert artifact is not None
    asked = np.array([1, 8, 0, 3])

    def run(artifact: Artifact) -> list[bytes]:
        steps = read_parts(artifact, model, ArtifactLoader(device._target, threads=1).restore)
        restored = PartlyCompiledModel(model, steps)
        function = restored.create_array_function([(4,)], ())
        assert function is not None
        found = function(asked)
        assert found is not None
        (step,) = steps[0]
        assert isinstance(step, NativeSegment)
        results = step.run([asked], ExecuteOptions())
        assert results is not None
        assert results[0][0].tolist() == found[0].tolist()
        return list(found[0])

    assert run(artifact) == words(9, 4)[asked].tolist()
    for damage in (-1, 1 << 62, 5 << 32, 3 << 31, 0x7FFF_FFFF_FFFF_FFFF):
        constants = np.frombuffer(artifact.data[0].view(), np.uint8).copy()
        constants.view(np.int64)[:] = damage
        damaged = Artifact(model=artifact.model, data=(HostMemory(constants),))
        assert run(damaged) == [b""] * 4


def test_damaged_tables(tmp_path: Path) -> None:
    """The numbers in a table are checked before they become addresses, and every search ends."""
    keys = strings([b"key %d" % n for n in range(50)])
    model = table(tmp_path, keys, np.arange(50), (60,), [-9])
    device = CpuDevice()
    artifact = write_parts(prepared(model).steps)
    assert artifact is not None
    asked = strings([b"key %d" % n for n in range(60)])
    for seed in range(30):
        constants = np.frombuffer(artifact.data[0].view(), np.uint8).copy()
        generator = np.random.default_rng(seed)
        words = constants.view(np.int32)
        if seed % 3 == 0:
            # Every place is taken.
            words[:] = generator.integers(1, 50, words.size)
        else:
            at = generator.integers(0, words.size, words.size // 2)
            words[at] = generator.integers(-(2**31), 2**31, at.size) if seed % 3 == 1 else 1
        damaged = Artifact(model=artifact.model, data=(HostMemory(constants),))
        steps = read_parts(damaged, model, ArtifactLoader(device._target, threads=1).restore)
        (step,) = steps[0]
        assert isinstance(step, NativeSegment)
        assert len(step.native.run_arrays([asked])[0]) == 60
