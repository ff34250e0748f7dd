import numpy as np
from support.tflite.builder import TfliteModel
from support.tflite.resources import constant

from neurald.litert import Interpreter


def details_of(file: TfliteModel) -> list[dict[str, object]]:
    return Interpreter(model_content=file.build()).get_tensor_details()


def test_quantisation() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.tensor((2,), "INT8", scale=0.5, zero_point=-3, name="single")
    graph.tensor((4, 3), "INT8", scale=(1, 2, 3), quantized_dimension=1, data=np.zeros((4, 3), np.int8))
    graph.tensor((), "RESOURCE")
    single, channels, handle = details_of(file)
    assert single["quantization"] == (0.5, -3)
    assert single["name"] == "single"
    assert channels["quantization"] == (0.0, 0)
    parameters = channels["quantization_parameters"]
    assert isinstance(parameters, dict)
    assert parameters["scales"].tolist() == [1, 2, 3]
    assert parameters["zero_points"].tolist() == [0, 0, 0]
    assert (parameters["quantized_dimension"], parameters["block_size"]) == (1, 0)
    assert handle["dtype"] is np.object_


def test_blocks() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    scales = constant(graph, np.array([[1, 2]], np.float16), "FLOAT16")
    graph.tensor((1, 64), "INT4", data=bytes(32), blocks=(scales, 32))
    parameters = details_of(file)[1]["quantization_parameters"]
    assert isinstance(parameters, dict)
    assert parameters["block_size"] == 32
    assert parameters["scales"].tolist() == [1, 2]


def test_what_a_caller_changes_stays_with_it() -> None:
    file = TfliteModel()
    file.subgraph().tensor((2,), "INT8", scale=0.5)
    interpreter = Interpreter(model_content=file.build())
    (first,) = interpreter.get_tensor_details()
    first["shape"][0] = 9
    first["quantization_parameters"]["scales"][0] = 9
    (second,) = interpreter.get_tensor_details()
    assert second["shape"].tolist() == [2]
    assert second["quantization_parameters"]["scales"].tolist() == [0.5]


def test_details_can_be_read_often() -> None:
    file = TfliteModel()
    file.subgraph().tensor((2,), "INT8", scale=0.5)
    interpreter = Interpreter(model_content=file.build())
    before = repr(interpreter.get_tensor_details())
    for _ in range(5000):
        found = interpreter.get_tensor_details()
    assert repr(found) == before
