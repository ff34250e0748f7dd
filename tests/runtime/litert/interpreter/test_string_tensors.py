"""Strings as values of tensors."""

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.interpreters import opened
from support.tflite.litert_files import texts
from support.tflite.resources import (
    constant,
)


def test_strings_keep_all_bytes() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((), "STRING", name="x", has_rank=True)
    y = graph.tensor((1,), "STRING", name="y")
    shape = graph.tensor((1,), "INT32", name="shape", data=np.array([1], np.int32))
    graph.operator("RESHAPE", (x, shape), (y,), "ReshapeOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    interpreter = opened(file)
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.array(b"ab" + bytes(3)))
    interpreter.invoke()
    assert interpreter.get_tensor(x).item() == b"ab" + bytes(3)
    found = interpreter.get_tensor(y)
    assert found.dtype == object
    assert found.tolist() == [b"ab" + bytes(3)]


def test_strings() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((3,), "STRING", name="x")
    indices, z = constant(graph, np.array([2, 0], np.int32), "INT32"), graph.tensor((2,), "STRING")
    graph.operator("GATHER", (x, indices), (z,), "GatherOptions")
    graph.inputs, graph.outputs = (x,), (z,)
    interpreter = opened(file)
    interpreter.allocate_tensors()
    assert interpreter.get_input_details()[0]["dtype"] is np.bytes_
    for values in (np.array(["a", "bc", "déf"]), np.array([b"a", b"bc", "déf".encode()])):
        interpreter.set_tensor(x, values)
        interpreter.invoke()
        assert interpreter.get_tensor(z).tolist() == ["déf".encode(), b"a"]
    with pytest.raises(ValueError, match="Cannot set tensor: input 0: element 1 is int"):
        interpreter.set_tensor(x, np.array(["a", 5, "b"], object))
    for given, name in ((["a", "b", "c"], "list"), (("a", "b", "c"), "tuple"), ([b"a", b"b", b"c"], "list")):
        with pytest.raises(
            ValueError, match=f"^Passed in value type is not a numpy array, got type {name}.$"
        ):
            interpreter.set_tensor(x, given)
    with pytest.raises(ValueError, match="Dimension mismatch"):
        interpreter.set_tensor(x, ["a", "b"])


def test_strings_bring_their_own_memory() -> None:
    interpreter = opened(texts())
    interpreter.set_tensor(0, np.array([b"a", b"b", b"c", b"d"], object))
    assert interpreter.get_tensor(0).tolist() == [b"a", b"b", b"c", b"d"]
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke()
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(0).tolist() == [b"a", b"b", b"c", b"d"]
    interpreter.resize_tensor_input(0, [2])
    with pytest.raises(ValueError, match="Got 4 but expected 2 for dimension 0"):
        interpreter.set_tensor(0, np.array([b"a", b"b", b"c", b"d"], object))
    interpreter.set_tensor(0, np.array(["e", "f"]))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist() == [b"f", b"e"]
