import io
import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.model.model import SignatureNames
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.validation.model_rules import validate_model
from neurald.runtime.tflite import load_tflite

pytestmark = pytest.mark.quick


def sums(
    *shape: int, signature: Sequence[int] | None = None, intermediate: Sequence[int] | None = None
) -> TfliteModel:
    """Builds `z = (x + y) + c` of one shape; the constant c broadcasts."""
    model = TfliteModel()
    graph = model.subgraph()
    x = graph.tensor(shape, name="x", shape_signature=signature)
    y = graph.tensor(shape, name="y", shape_signature=signature)
    between = graph.tensor(shape, shape_signature=intermediate)
    constant = graph.tensor((1,) * len(shape), name="c", data=[3.0])
    z = graph.tensor(shape, name="z", shape_signature=intermediate)
    graph.operator("ADD", (x, y), (between,), "AddOptions")
    graph.operator("ADD", (between, constant), (z,), "AddOptions")
    graph.inputs, graph.outputs = (x, y), (z,)
    return model


def test_a_whole_model(path: Path) -> None:
    model = load_tflite(sums(2, 3).write(path))
    assert model.input_names == ("x", "y")
    assert model.output_names == ("z",)
    assert model.signatures == {}
    assert [operation.type for operation in model.main.operations] == [OperationType.ADD] * 2
    x, y = np.random.default_rng(0).random((2, 2, 3), np.float32)
    (z,) = run_references(model, x, y)
    np.testing.assert_array_equal(z, x + y + 3)


def test_a_path_may_be_text(path: Path) -> None:
    assert load_tflite(str(sums(2).write(path))).input_names == ("x", "y")


def test_constants_lie_in_the_mapped_file(path: Path) -> None:
    model = load_tflite(sums(2, 3).write(path))
    (pool,) = model.pools
    assert pool.size == path.stat().st_size
    assert pool.readonly
    assert isinstance(pool.view().obj, mmap.mmap)
    constants = [o for o in model.main.operands if o.lifetime is Lifetime.CONSTANT_POOL]
    assert [operand.name for operand in constants] == ["c"]
    location = constants[0].location
    assert location is not None
    content = path.read_bytes()[location.offset : location.offset + location.length]
    assert np.frombuffer(content, "<f4").tolist() == [3.0]


def test_the_file_may_be_replaced_while_the_model_lives(path: Path) -> None:
    model = load_tflite(sums(2, 3).write(path))
    path.unlink()
    path.write_bytes(b"")
    (z,) = run_references(model, np.zeros((2, 3)), np.zeros((2, 3)))
    assert z.min() == z.max() == 3


def test_values_after_the_flatbuffer(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y, z = (graph.tensor((2, 2)) for _ in range(3))
    first = graph.tensor((2, 2), data=[[1, 2], [3, 4]], is_external=True)
    second = graph.tensor((2,), data=[10, 20], is_external=True)
    graph.operator("ADD", (x, first), (y,), "AddOptions")
    graph.operator("ADD", (y, second), (z,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (z,)
    (result,) = run_references(load_tflite(file.write(path)), np.zeros((2, 2)))
    assert result.tolist() == [[11, 22], [13, 24]]


def test_unused_operands_are_removed(path: Path) -> None:
    file = sums(2)
    file.graphs[0].tensor((5,), "STRING", name="unused")
    file.graphs[0].tensor((5,), name="unused too")
    names = {operand.name for operand in load_tflite(file.write(path)).main.operands}
    assert names == {"x", "y", "", "c", "z"}


@pytest.mark.parametrize(("names", "expected"), [(("a", "a"), ("a", "a")), (("", None), ("", ""))])
def test_names_may_be_missing_or_equal(
    path: Path, names: Sequence[str | None], expected: Sequence[str]
) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = [graph.tensor((2,), name=name) for name in names]
    graph.outputs = [graph.tensor((2,), name=None)]
    graph.operator("MUL", graph.inputs, graph.outputs, "MulOptions")
    model = load_tflite(file.write(path))
    assert model.input_names == expected
    assert model.output_names == ("",)


@pytest.mark.parametrize("intermediate", [None, (-1, 3)])
def test_open_dimensions(path: Path, intermediate: Sequence[int] | None) -> None:
    model = load_tflite(sums(1, 3, signature=(-1, 3), intermediate=intermediate).write(path))
    dimensions = {operand.name: operand.dimensions for operand in model.main.operands}
    assert dimensions["x"] == (0, 3)
    assert dimensions["z"] == ((0, 3) if intermediate else (0, 0))
    for batch in (1, 4):
        x = np.ones((batch, 3), np.float32)
        (z,) = run_references(model, x, x)
        np.testing.assert_array_equal(z, np.full((batch, 3), 5))


def test_shapes_are_inferred_from_the_inputs(path: Path) -> None:
    """Tools that change the inputs of a model often do not update the other shapes."""
    file = TfliteModel()
    graph = file.subgraph()
    x, y, z = graph.tensor((2, 3)), graph.tensor((7, 7, 7), name="y"), graph.tensor((9,), name="z")
    graph.operator("TANH", (x,), (y,))
    graph.operator("TANH", (y,), (z,))
    graph.inputs, graph.outputs = (x,), (z,)
    model = load_tflite(file.write(path))
    assert [operand.dimensions for operand in model.main.operands] == [(2, 3)] * 3


def test_an_open_graph_may_lose_the_rank(path: Path) -> None:
    """An empty shape means a scalar only if the file says so."""
    file = TfliteModel()
    graph = file.subgraph()
    x, y = graph.tensor((1,), shape_signature=(-1,)), graph.tensor((), name="y")
    graph.operator("TANH", (x,), (y,))
    graph.inputs, graph.outputs = (x,), (y,)
    model = load_tflite(file.write(path))
    assert model.main.operands[1].dimensions is None
    (result,) = run_references(model, np.zeros(5))
    assert result.shape == (5,)


def test_scalars(path: Path) -> None:
    (z,) = run_references(load_tflite(sums().write(path)), 1.0, 2.0)
    assert z.shape == ()
    assert z == 6


def two_graphs() -> TfliteModel:
    """Builds `add`, whose inputs' names are in reversed order, and `multiply` with two outputs."""
    file = TfliteModel()
    first = file.subgraph()
    a, b, total = (first.tensor((2,), name=name) for name in ("a", "b", "total"))
    first.operator("SUB", (a, b), (total,), "SubOptions")
    first.inputs, first.outputs = (a, b), (total,)
    second = file.subgraph()
    c, product, square = (second.tensor((2,), name=name) for name in ("c", "product", "square"))
    factor = second.tensor((1,), data=[2.0])
    second.operator("MUL", (c, factor), (product,), "MulOptions")
    second.operator("MUL", (c, c), (square,), "MulOptions")
    second.inputs, second.outputs = (c,), (product, square)
    file.signature(
        "subtract",
        {
            "right": b,
            "left": a,
        },
        {"result": total},
    )
    file.signature("multiply", {"in": c}, {"twice": product, "power": square, "again": product}, 1)
    return file


def test_signatures_are_listed(path: Path) -> None:
    model = load_tflite(two_graphs().write(path))
    assert model.input_names == ("a", "b")
    assert model.signatures == {
        "subtract": SignatureNames(inputs=("left", "right"), outputs=("result",)),
        "multiply": SignatureNames(inputs=("in",), outputs=("again", "power", "twice")),
    }


def test_a_signature_has_its_names_in_order(path: Path) -> None:
    file = two_graphs()
    file.signatures[0] = ("subtract", 0, {"y": 0, "x": 1}, {"result": 2})
    model = load_tflite(file.write(path), "subtract")
    assert model.input_names == ("x", "y")
    (result,) = run_references(model, [1, 2], [10, 20])
    assert result.tolist() == [9, 18]


def test_a_signature_of_another_subgraph(path: Path) -> None:
    model = load_tflite(two_graphs().write(path), "multiply")
    assert model.output_names == ("again", "power", "twice")
    results = run_references(model, [3, 5])
    assert [result.tolist() for result in results] == [[6, 10], [9, 25], [6, 10]]


def test_an_unknown_signature(path: Path) -> None:
    with pytest.raises(BadData, match=r"no signature 'divide'; there are: 'multiply', 'subtract'"):
        load_tflite(two_graphs().write(path), "divide")
    with pytest.raises(BadData, match="the file has none, and is run without the name of one"):
        load_tflite(sums(2).write(path), "")


def passing_on(outputs: str) -> TfliteModel:
    """Builds a graph of x, y = tanh(x) and a constant c, with these outputs."""
    file = TfliteModel()
    graph = file.subgraph()
    tensors = {
        "x": graph.tensor((2,), name="x"),
        "y": graph.tensor((2,), name="y"),
        "c": graph.tensor((1, 3), "INT32", name="c", data=[4, 5, 6]),
        "e": graph.tensor((0, 3), name="e"),
    }
    graph.operator("TANH", (tensors["x"],), (tensors["y"],))
    graph.inputs, graph.outputs = (tensors["x"],), [tensors[name] for name in outputs]
    return file


@pytest.mark.parametrize("outputs", ["x", "c", "yy", "yxcyx", "e"])
def test_outputs_that_are_inputs_constants_or_duplicates(path: Path, outputs: str) -> None:
    model = load_tflite(passing_on(outputs).write(path))
    assert model.output_names == tuple(outputs)
    x = np.array([0.5, -1], np.float32)
    expected = {
        "x": x,
        "y": np.tanh(x),
        "c": np.array([[4, 5, 6]], np.int32),
        "e": np.zeros((0, 3), np.float32),
    }
    for name, result in zip(outputs, run_references(model, x), strict=True):
        np.testing.assert_array_equal(result, expected[name])


def test_a_copy_of_unknown_shape(path: Path) -> None:
    file = passing_on("xy")
    for tensor in file.graphs[0].tensors[:2]:
        tensor.shape, tensor.shape_signature = (1, 1), (-1, -1)
    x = np.array([[0.5, -1, 3]], np.float32)
    copy, _ = run_references(load_tflite(file.write(path)), x)
    np.testing.assert_array_equal(copy, x)


def test_an_input_that_is_a_variable(path: Path) -> None:
    file = sums(2)
    file.graphs[0].tensors[1].is_variable = True
    model = load_tflite(file.write(path))
    assert model.main.operands[1].lifetime is Lifetime.SUBGRAPH_INPUT


@pytest.mark.parametrize("old_codes", [False, True])
def test_old_and_new_operator_codes(path: Path, *, old_codes: bool) -> None:
    file = sums(2)
    file.old_codes = old_codes
    assert len(load_tflite(file.write(path)).main.operations) == 2


def test_a_new_operator_code_beyond_8_bits_is_named(path: Path) -> None:
    file = sums(2)
    file.graphs[0].operators[1].code = 173
    with pytest.raises(BadData, match="operator 1 STABLEHLO_CUSTOM_CALL: it is not supported"):
        load_tflite(file.write(path))


def test_all_unsupported_parts_are_listed(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y, z, u = (graph.tensor((2,), name=name) for name in "xyzu")
    long = graph.tensor((2,), "VARIANT", name="long\n" + "g" * 200)
    graph.operator("CUSTOM", (x,), (y,), custom_code="Foo")
    graph.operator("TANH", (y,), (z,))
    graph.operator("ADD", (z, long), (u,), "AddOptions")
    graph.operator(12345, (u,), (graph.tensor((2,)),))
    graph.operator("ADD", (x, x), (graph.tensor((2,)),), "AddOptions", FusedActivationFunction=5)
    graph.inputs, graph.outputs = (x, long), (u,)
    with pytest.raises(BadData) as caught:
        load_tflite(file.write(path))
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path}: the model has unsupported parts (5):"
    named = repr("long\n" + "g" * 72 + "...")
    assert lines[1:] == [
        f"  input 1: tensor 4 {named} has type VARIANT, which is not supported",
        "  operator 0 CUSTOM 'Foo': it is not supported",
        f"  operator 2 ADD: tensor 4 {named} has type VARIANT, which is not supported",
        "  operator 3 builtin code 12345: it is not supported",
        "  operator 4 ADD: the fused activation SIGN_BIT is not supported",
    ]


def test_unaccepted_operands_are_listed(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y = graph.tensor((2, 2)), graph.tensor((2, 2))
    graph.operator("AVERAGE_POOL_2D", (x,), (y,), "Pool2DOptions", StrideW=1, StrideH=1, FilterWidth=1)
    graph.operator("ADD", (x, graph.tensor((3,), data=[1, 2, 3])), (graph.tensor((2, 2)),), "AddOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    with pytest.raises(BadData) as caught:
        load_tflite(file.write(path))
    assert "operator 0 AVERAGE_POOL_2D: operand 0 (input of " in str(caught.value)
    assert "has rank 2" in str(caught.value)
    assert "operator 1 ADD: TFLITE_ADD cannot broadcast" in str(caught.value)


def test_loaded_models_are_valid(path: Path) -> None:
    for file in (sums(2, 3), sums(1, 3, signature=(-1, 3)), two_graphs()):
        validate_model(load_tflite(file.write(path)))


def test_a_model_without_operators(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = graph.outputs = (graph.tensor((2, 2), "UINT8", scale=0.5, zero_point=3),)
    model = load_tflite(file.write(path))
    (result,) = run_references(model, [[1, 2], [3, 4]])
    assert result.tolist() == [[1, 2], [3, 4]]
    assert model.main.operands[0].type is OperandType.TENSOR_QUANT8_ASYMM


def make_directory(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_nothing(path: Path) -> None:
    assert not path.exists()


def make_empty(path: Path) -> None:
    path.touch()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_nothing, "No such file or directory"),
        (make_directory, "not a regular file"),
        (make_pipe, "not a regular file"),
        (make_empty, "the file is empty"),
    ],
)
def test_a_path_without_a_file(path: Path, make: Callable[[Path], None], message: str) -> None:
    make(path)
    with pytest.raises(BadData, match=message) as caught:
        load_tflite(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert isinstance(caught.value, FileNotFoundError) is (make is make_nothing)


@sweep(
    ("model", "words"),
    [
        ("~/model.tflite", r"expanduser\(\) does"),
        ("https://example.com/model.tflite", "this is a URL, whose file is to be downloaded first"),
        (io.BytesIO(b"TFL3"), "give what its method read returns"),
        (mmap.mmap(-1, 4096), "give a memoryview of it"),
    ],
    ids=str,
)
def test_messages_say_how_to_open_what_is_no_path(model: Any, words: str) -> None:
    for load in (load_tflite, nd.compile):
        with pytest.raises(BadData, match=words):
            load(model)


@sweep("path", ["\0", "a" * 5000, b"model.tflite", 7, None])
def test_a_path_of_another_type(path: object) -> None:
    with pytest.raises(BadData):
        load_tflite(path)  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(path: Path) -> None:
    sums(2).write(path).chmod(0)
    with pytest.raises(BadData, match="Permission denied"):
        load_tflite(path)


def chain(operators: int) -> TfliteModel:
    file = TfliteModel()
    graph: TfliteGraph = file.subgraph()
    value = graph.tensor((1, 8, 8, 4))
    weights, bias = graph.tensor((4, 3, 3, 4), data=np.ones(144)), graph.tensor((4,), data=np.ones(4))
    graph.inputs = (value,)
    for position in range(operators):
        result = graph.tensor((1, 8, 8, 4), name=f"result {position}")
        if position % 2:
            graph.operator(
                "CONV_2D", (value, weights, bias), (result,), "Conv2DOptions", StrideW=1, StrideH=1
            )
        else:
            graph.operator("ADD", (value, value), (result,), "AddOptions")
        value = result
    graph.outputs = (value,)
    return file


def test_many_operators(path: Path) -> None:
    assert len(load_tflite(chain(700).write(path)).main.operations) == 700


@sweep("kind", [bytes, bytearray, memoryview])
def test_the_content_of_a_file(kind: Callable[[bytes], bytes | bytearray | memoryview]) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, result = graph.tensor((2, 100)), graph.tensor((2, 100))
    weights = graph.tensor((100,), data=np.arange(100))
    graph.operator("ADD", (x, weights), (result,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (result,)
    content = bytearray(file.build())
    given = content if kind is bytearray else kind(bytes(content))
    model = load_tflite(given)
    if kind is bytearray:
        content[:] = bytes(len(content))  # the model has a copy
    (total,) = run_references(model, np.ones((2, 100), np.float32))
    np.testing.assert_array_equal(total, np.tile(np.arange(100) + 1, (2, 1)))


@sweep(
    "content", [b"", b"no model", bytes(range(256)) * 4000, np.zeros((4, 4), np.uint8)[:, ::2].data, None, 3]
)
def test_errors_do_not_repeat_the_content(content: bytes) -> None:
    with pytest.raises(BadData) as raised:
        load_tflite(content)
    assert len(str(raised.value)) < 200
