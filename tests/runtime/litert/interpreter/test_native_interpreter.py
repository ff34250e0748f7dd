"""The parts of LiteRT's private wrapper that other packages use."""

import gc
from typing import Any

import numpy as np
import pytest
from support.tflite.litert_files import sums, two_signatures

from neurald.hal.device import MAX_THREADS
from neurald.litert import Interpreter
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.litert.interpreter.native_interpreter import living
from neurald.runtime.litert.subgraphs import runner_table


def test_a_signature_is_run_by_numbers() -> None:
    interpreter = Interpreter(model_content=two_signatures().build())
    native = interpreter._interpreter
    number = native.GetSubgraphIndexFromSignature("double")
    tables = native.GetSignatureDefs()
    names = tables["double"]
    native.ResizeInputTensor(names["inputs"]["b"], np.array([3], np.int32), False, number)
    native.AllocateTensors(number)
    native.SetTensor(names["inputs"]["b"], np.array([1, 2, 3], np.float32), number)
    native.Invoke(number)
    assert native.GetTensor(names["outputs"]["w"], number).tolist() == [2, 4, 6]
    assert native.TensorSize(names["inputs"]["b"], number).tolist() == [3]
    assert native.tensor(None, names["outputs"]["w"], number).tolist() == [2, 4, 6]


def test_descriptions_are_those_of_the_interpreter() -> None:
    interpreter = Interpreter(model_content=sums().build())
    native = interpreter._interpreter
    native.AllocateTensors()
    assert native.InputIndices().tolist() == [each["index"] for each in interpreter.get_input_details()]
    assert native.OutputIndices().tolist() == [each["index"] for each in interpreter.get_output_details()]
    assert (native.NumSubgraphs(), native.NumTensors(0), native.NumNodes()) == (1, 5, 2)
    assert [native.NodeName(0), native.NodeInputs(0).tolist(), native.NodeOutputs(0).tolist()] == [
        "ADD",
        [0, 1],
        [2],
    ]
    (first, *_) = interpreter.get_tensor_details()
    assert native.TensorName(0) == first["name"]
    assert native.TensorName(np.array(0), np.int64(0)) == first["name"]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'x' is given"):
        native.TensorName("x")  # type: ignore[arg-type]
    assert native.TensorType(0) is first["dtype"]
    assert native.TensorQuantization(0) == first["quantization"]
    assert native.TensorSparsityParameters(0) == {}
    assert [len(each) for each in native.TensorQuantizationParameters(0)[:2]] == [0, 0]
    assert native.TensorSizeSignature(0).tolist() == [-1, 3]
    assert native.GetSignatureDefs() == {}
    with pytest.raises(ValueError, match=r"^No matching signature\. There is no 'zz'; there are: none$"):
        native.GetSubgraphIndexFromSignature("zz")
    native.ResetVariableTensors()


@pytest.mark.parametrize(
    ("given", "threads"), [(3, 3), (np.int64(2), 2), (-1, 1), (0, 1), (10**6, MAX_THREADS)]
)
def test_the_number_of_threads_is_that_of_the_preparation(
    given: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int | None] = []

    class Builder(CompilationBuilder):
        def __init__(self, model: Any, devices: Any, threads: int | None) -> None:
            used.append(threads)
            super().__init__(model, devices, threads)

    monkeypatch.setattr(runner_table, "CompilationBuilder", Builder)
    interpreter = Interpreter(model_content=sums().build())
    interpreter._interpreter.SetNumThreads(given)
    interpreter.allocate_tensors()
    assert used == [threads]
    with pytest.raises(TypeError, match="'x' is given"):
        interpreter._interpreter.SetNumThreads("x")  # type: ignore[arg-type]


def test_numbers_are_never_followed_as_addresses() -> None:
    interpreter = Interpreter(model_content=sums().build())
    handle = interpreter._native_handle()
    assert living(handle) is interpreter._interpreter
    with pytest.raises(ValueError, match="address"):
        interpreter._interpreter.ModifyGraphWithDelegate(handle)
    with pytest.raises(ValueError, match="Invalid subgraph index 4"):
        interpreter._interpreter.GetTensor(0, 4)
    with pytest.raises(ValueError, match="1D INT32"):
        interpreter._interpreter.ResizeInputTensor(0, np.array([2.0]), False)
    del interpreter
    gc.collect()
    with pytest.raises(ValueError, match="not the handle"):
        living(handle)
