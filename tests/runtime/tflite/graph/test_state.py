"""Variables of `.tflite` files: resources with handles, and variable tensors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.resources import (
    assign,
    branch,
    constant,
    counts_up_to,
    initialise,
    loop,
    plus,
    read,
    stepped,
    variable,
)

from neurald.hal.errors import BadData
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite


def compiled(file: TfliteModel, path: Path) -> Compilation:
    return CompilationBuilder(load_tflite(file.write(path))).finish()


def accumulator(initial: Any = (5, 7)) -> TfliteModel:
    """Builds `y = total; total += x`, and a variable that is never assigned."""
    file = TfliteModel()
    main = file.subgraph()
    initialise(file, main, total=initial, factor=[1, 10])
    total, factor = variable(main, "total"), variable(main, "factor")
    x = main.tensor((2,))
    old = read(main, total, 2)
    scaled = main.tensor((2,))
    main.operator("MUL", (x, read(main, factor, 2)), (scaled,), "MulOptions")
    assign(main, total, plus(main, old, scaled, 2))
    main.inputs, main.outputs = (x,), (old,)
    return file


def test_a_variable_belongs_to_the_compilation(path: Path) -> None:
    compilation = compiled(accumulator(), path)
    model = compilation.model
    assert [variable.name for variable in model.state] == ["variable 'total'"]
    assert len(model.input_names) == len(model.output_names) == 1
    assert len(model.main.inputs) == len(model.main.outputs) == 2
    x = np.array([1, 2], np.float32)
    assert [compilation.run(x)[0].tolist() for _ in range(3)] == [[5, 7], [6, 27], [7, 47]]
    assert CompilationBuilder(model).finish().run(x)[0].tolist() == [5, 7]


def test_initial_values_may_be_computed(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    main.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=1)
    x = main.tensor((2,))
    main.inputs, main.outputs = (x,), (plus(main, x, read(main, variable(main, "a", "c"), 2), 2),)
    inner = file.subgraph()
    value = plus(inner, constant(inner, [1, 2]), constant(inner, [10]), 2)
    assign(inner, variable(inner, "a", "c"), value)
    assign(inner, variable(inner, "a", "c"), plus(inner, value, read(inner, variable(inner, "a", "c"), 2), 2))
    assert compiled(file, path).run(np.zeros(2, np.float32))[0].tolist() == [22, 24]


@pytest.mark.parametrize("type_", ["FLOAT32", "INT32", "INT64", "BOOL", "INT8", "UINT8", "INT16"])
@pytest.mark.parametrize("shape", [(), (2,), (0, 3)])
def test_a_variable_of_any_type_and_shape(path: Path, type_: str, shape: tuple[int, ...]) -> None:
    file = TfliteModel()
    main, inner = file.subgraph(), file.subgraph()
    main.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=1)
    x = main.tensor(shape, type_)
    old = read(main, variable(main, "v"), *shape, type_=type_)
    assign(main, variable(main, "v"), x)
    main.inputs, main.outputs = (x,), (old,)
    assign(inner, variable(inner, "v"), constant(inner, np.ones(shape), type_))
    compilation = compiled(file, path)
    dtype = compilation.model.state[0].initial.dtype
    x_value = np.zeros(shape, dtype)
    first, second = compilation.run(x_value)[0], compilation.run(x_value)[0]
    np.testing.assert_array_equal(first, np.ones(shape, dtype))
    np.testing.assert_array_equal(second, x_value)


def test_a_variable_may_change_its_shape(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    initialise(file, main, v=[9])
    handle, x = variable(main, "v"), main.tensor((1,))
    longer = main.tensor((2,), shape_signature=(-1,))
    main.operator("CONCATENATION", (read(main, handle, 1), x), (longer,), "ConcatenationOptions", Axis=0)
    assign(main, handle, longer)
    main.inputs, main.outputs = (x,), (longer,)
    compilation = compiled(file, path)
    for expected in ([9, 1], [9, 1, 1], [9, 1, 1, 1]):
        assert compilation.run(np.ones(1, np.float32))[0].tolist() == expected


def test_the_raw_bytes_are_kept_if_the_scale_changes(path: Path) -> None:
    file = TfliteModel()
    main, inner = file.subgraph(), file.subgraph()
    main.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=1)
    x = main.tensor((2,), "INT8", scale=0.25)
    quantized = read(main, variable(main, "v"), 2, type_="INT8", scale=0.5)
    old = main.tensor((2,))
    main.operator("DEQUANTIZE", (quantized,), (old,), "DequantizeOptions")
    assign(main, variable(main, "v"), x)
    main.inputs, main.outputs = (x,), (old,)
    assign(inner, variable(inner, "v"), constant(inner, [1, 0], "INT8", scale=0.125))
    compilation = compiled(file, path)
    x_value = np.array([4, 8], np.int8)
    assert [compilation.run(x_value)[0].tolist() for _ in range(2)] == [[0.5, 0], [2, 4]]


def test_branches_that_assign(path: Path) -> None:
    file = TfliteModel()
    main, then, other = (file.subgraph() for _ in range(3))
    initialise(file, main, v=[5, 7], w=[2, 2])
    c, x, y, handle = main.tensor((), "BOOL"), main.tensor((2,)), main.tensor((2,)), variable(main, "v")
    branch(main, (c, x, handle), (y,), 1, 2)
    main.inputs, main.outputs = (c, x), (y, read(main, handle, 2))
    given, inner = then.tensor((2,)), then.tensor((), "RESOURCE")
    total = plus(then, read(then, inner, 2), given, 2)
    assign(then, inner, total)
    then.inputs, then.outputs = (given, inner), (total,)
    given, inner = other.tensor((2,)), other.tensor((), "RESOURCE")
    other.inputs, other.outputs = (
        (given, inner),
        (plus(other, given, read(other, variable(other, "w"), 2), 2),),
    )
    compilation = compiled(file, path)
    x_value = np.array([1, 2], np.float32)
    found = [
        [result.tolist() for result in compilation.run(np.bool_(holds), x_value)]
        for holds in (True, False, True)
    ]
    assert found == [[[6, 9], [6, 9]], [[3, 4], [6, 9]], [[7, 11], [7, 11]]]


def test_loops_that_assign(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    n, last, handle, after = main.tensor((), "INT32"), main.tensor((), "INT32"), variable(main, "v"), 0
    after = main.tensor((), "RESOURCE")
    loop(main, (n, handle), (last, after), 1, 2)
    main.inputs, main.outputs = (n,), (last, read(main, after, 2))
    counts_up_to(file, 3, {"shape": (), "type_": "RESOURCE"})
    body = file.subgraph()
    (count, following), inner = stepped(body), body.tensor((), "RESOURCE")
    assign(body, inner, plus(body, read(body, inner, 2), constant(body, [1, 10]), 2))
    body.inputs, body.outputs = (count, inner), (following, inner)
    initialise(file, main, v=[0, 0])
    compilation = compiled(file, path)
    found = [compilation.run(np.int32(start))[1].tolist() for start in (0, 2, 9)]
    assert found == [[3, 30], [4, 40], [4, 40]]


def test_a_variable_that_was_never_assigned(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    x, handle = main.tensor((2,)), variable(main, "v", "box")
    main.inputs, main.outputs = (x,), (plus(main, x, read(main, handle, 2), 2),)
    assign(main, handle, main.outputs[0])
    with pytest.raises(
        BadData, match="READ_VARIABLE: variable 'box/v' is read before anything gives it a value"
    ):
        load_tflite(file.write(path))


def test_a_variable_that_is_assigned_before_it_is_read_is_not_kept(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    x, handle = main.tensor((2,)), variable(main, "v")
    assign(main, handle, x)
    main.inputs, main.outputs = (x,), (plus(main, x, read(main, handle, 2), 2),)
    compilation = compiled(file, path)
    assert not compilation.model.state
    assert compilation.run(np.ones(2, np.float32))[0].tolist() == [2, 2]


def test_an_input_that_is_not_a_handle(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    x, y = main.tensor((2,)), main.tensor((2,))
    main.operator("READ_VARIABLE", (x,), (y,), "ReadVariableOptions")
    main.operator("VAR_HANDLE", (), (main.tensor((), "RESOURCE"),))
    main.inputs, main.outputs = (x,), (y,)
    with pytest.raises(BadData, match="input 0 is not a handle that an operator has created") as caught:
        load_tflite(file.write(path))
    assert "operator 1 VAR_HANDLE: it does not name its resource" in str(caught.value)


def test_an_initializing_subgraph_that_fails(path: Path) -> None:
    file = accumulator()
    file.graphs[1].operators[1].inputs = (file.graphs[1].operators[1].inputs[0], 0)
    with pytest.raises(BadData, match="subgraph 1"):
        load_tflite(file.write(path))
    file = accumulator()
    inner = file.graphs[1]
    big = inner.tensor((30000, 30000))
    inner.operator("FILL", (constant(inner, [30000, 30000], "INT32"), constant(inner, 1.0)), (big,))
    assign(inner, variable(inner, "total"), big)
    with pytest.raises(BadData, match=r"initial values of more than \d+ bytes|FILL: it is not supported"):
        load_tflite(file.write(path))


def svdf(**state: Any) -> TfliteModel:
    """Builds an SVDF of one unit that sums the newest three inputs."""
    file = TfliteModel()
    main = file.subgraph()
    x, y = main.tensor((1, 1)), main.tensor((1, 1))
    memory = main.tensor((1, 3), name="memory", is_variable=True, **state)
    weights = constant(main, [[1]]), constant(main, [[1, 1, 1]])
    main.operator("SVDF", (x, *weights, -1, memory), (y,), "SVDFOptions", Rank=1)
    main.inputs, main.outputs = (x,), (y,)
    return file


def test_variable_tensors(path: Path) -> None:
    compilation = compiled(svdf(), path)
    assert [variable.name for variable in compilation.model.state] == ["variable tensor 2 of subgraph 0"]
    assert [float(compilation.run(np.full((1, 1), n, np.float32))[0][0, 0]) for n in (1, 2, 4, 8)] == [
        1,
        3,
        7,
        14,
    ]


def test_a_variable_tensor_may_have_an_initial_value(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    x = main.tensor((2,))
    main.inputs = (x,)
    main.outputs = (plus(main, x, main.tensor((2,), data=[10, 20], is_variable=True), 2),)
    compilation = compiled(file, path)
    assert not compilation.model.state
    assert compilation.run(np.ones(2, np.float32))[0].tolist() == [11, 21]


def test_a_state_must_be_a_variable(path: Path) -> None:
    file = svdf(data=[0, 0, 0])
    file.graphs[0].tensors[2].is_variable = False
    with pytest.raises(BadData, match="SVDF: input 4 is not a variable"):
        load_tflite(file.write(path))


def test_an_unused_handle(path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    main.operator("VAR_HANDLE", (), (), "VarHandleOptions", SharedName="v")
    main.inputs = main.outputs = (main.tensor((2,)),)
    with pytest.raises(BadData, match="VAR_HANDLE: it has 0 inputs and 0 outputs"):
        load_tflite(file.write(path))


def test_an_omitted_state(path: Path) -> None:
    file = svdf()
    file.graphs[0].operators[0].inputs = (*file.graphs[0].operators[0].inputs[:4], -1)
    with pytest.raises(BadData, match="SVDF: input 4 is omitted"):
        load_tflite(file.write(path))


def test_variables_that_are_too_large(path: Path) -> None:
    file = svdf()
    file.graphs[0].tensors[2].shape = (1, 1 << 29)
    with pytest.raises(BadData, match="variables of 2147483648 bytes"):
        load_tflite(file.write(path))
