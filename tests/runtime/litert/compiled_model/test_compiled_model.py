import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.litert_files import sums, two_signatures

from neurald.litert import (
    CompiledModel,
    CpuKernelMode,
    CpuOptions,
    Environment,
    HardwareAccelerator,
    Options,
    TensorBuffer,
)
from neurald.runtime.devices.local import cpu_device

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.fixture
def model() -> CompiledModel:
    return CompiledModel.from_buffer(sums().build())


def test_buffers_by_index(model: CompiledModel) -> None:
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer in inputs:
        buffer.write(X)
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].read(6, np.float32), (2 * X + 3).reshape(-1))
    assert model.get_input_buffer_requirements(0) == {"buffer_size": 24, "supported_types": [1]}
    assert model.is_fully_accelerated()


def test_buffers_by_name(tmp_path: Path) -> None:
    with CompiledModel.from_file(two_signatures().write(tmp_path / "m.tflite")) as model:
        assert model.get_num_signatures() == 2
        assert model.get_signature_index("double") == 1
        assert model.get_signature_index("zz") == -1
        assert model.get_signature_by_index(1) == {"key": "double", "inputs": ["b"], "outputs": ["w"]}
        assert model.get_input_tensor_details("double")["b"]["name"] == "double_b"
        given = model.create_input_buffer_by_name("double", "b")
        found = model.create_output_buffer_by_name("double", "w")
        given.write(np.array([21], np.float32))
        model.run_by_name("double", {"b": given}, {"w": found})
        assert found.read(1, np.float32) == [42]
    with pytest.raises(AttributeError, match="closed"):
        model.get_signature_list()


def test_a_file_without_signatures_has_one_of_either_name(model: CompiledModel) -> None:
    (key,) = model.get_signature_list()
    assert model.get_input_tensor_details(key) == model.get_input_tensor_details("serving_default")
    assert model.get_signature_index("serving_default") == 0


def test_results_that_programs_cannot_read() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, z = graph.tensor((2,), "INT64", name="x"), graph.tensor((2,), "INT64", name="z")
    graph.operator("ADD", (x, x), (z,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (z,)
    model = CompiledModel.from_buffer(file.build())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    model.run_by_index(0, inputs, outputs)
    assert outputs[0].get_tensor_details() == {"dtype": "int64", "shape": [2]}
    with pytest.raises(ValueError, match="Unsupported dtype: int64"):
        inputs[0].write(np.arange(2))


def test_types_without_buffers_or_names(tmp_path: Path) -> None:
    for kind, size in (("COMPLEX64", 16), ("UINT64", 16), ("STRING", 0)):
        file = TfliteModel()
        graph = file.subgraph()
        x, other = graph.tensor((2,), name="x"), graph.tensor((2,), kind, name="other")
        z = graph.tensor((2,), name="z")
        graph.operator("NEG", (x,), (z,))
        graph.inputs, graph.outputs = (x, other), (z,)
        model = CompiledModel.from_file(file.write(tmp_path / f"{kind}.tflite"))
        assert model.get_input_tensor_details("serving_default")["other"]["dtype"] == "unknown"
        assert model.get_input_buffer_requirements(1)["buffer_size"] == size
        if size:
            details = model.create_input_buffers(0)[1].get_tensor_details()
            assert details == {"dtype": "unknown", "shape": [2]}
            continue
        with pytest.raises(RuntimeError, match="input 'other' has texts, for which there are no buffers"):
            model.create_input_buffers(0)


def test_what_is_not_there(model: CompiledModel) -> None:
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for action in (
        lambda: model.get_signature_by_index(9),
        lambda: model.get_signature_by_index(-1),
        lambda: model.get_input_tensor_details("zz"),
        lambda: model.create_input_buffers(7),
        lambda: model.create_output_buffer_by_name("serving_default", "zz"),
        lambda: model.get_output_buffer_requirements(5),
        lambda: model.run_by_index(0, [], outputs),
        lambda: model.run_by_index(3, inputs, outputs),
        lambda: model.run_by_name("serving_default", {"x": inputs[0]}, {"z": outputs[0]}),
        lambda: model.run_by_name("serving_default", {"x": inputs[0], "y": inputs[1]}, {"q": outputs[0]}),
        lambda: model.run_by_name("serving_default", {"x": inputs[0], "y": inputs[1]}, {}),
    ):
        with pytest.raises(RuntimeError, match="CompiledModel error: code="):
            action()


def test_buffers_of_other_names_are_ignored(model: CompiledModel) -> None:
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer in inputs:
        buffer.write(X)
    given = {"x": inputs[0], "y": inputs[1], "q": inputs[0]}
    model.run_by_name("", given, {"z": outputs[0], "q": inputs[0]})
    np.testing.assert_array_equal(outputs[0].read(6, np.float32), (2 * X + 3).reshape(-1))


def test_inputs_are_resized(model: CompiledModel) -> None:
    with pytest.raises(RuntimeError, match="code=1"):
        model.resize_input_tensor(0, (2, 4))
    with pytest.raises(RuntimeError, match="rank does not match"):
        model.resize_input_tensor(0, (2,))
    for is_strict in (True, False):
        with pytest.raises(RuntimeError, match="must not be empty"):
            model.resize_input_tensor(0, (), strict=is_strict)
        for length in (-1, 0):
            with pytest.raises(RuntimeError, match="must be positive"):
                model.resize_input_tensor(0, (length, 3), strict=is_strict)
    with pytest.raises(ValueError, match="Unknown input 'q' for signature 'serving_default'"):
        model.resize_input_tensor_by_name("serving_default", "q", (2, 3))
    model.resize_input_tensor(0, (5, 3))
    with pytest.raises(RuntimeError, match="code=3"):
        model.create_output_buffers(0)  # the inputs do not go together
    model.resize_input_tensor(1, (5, 3))
    assert model.create_output_buffers(0)[0].get_tensor_details()["shape"] == [5, 3]
    same = CompiledModel.from_buffer(two_signatures().build())
    same.resize_input_tensor_by_name("double", "b", (4,))
    given, found = same.create_input_buffers(1), same.create_output_buffers(1)
    assert found[0].get_tensor_details() == {"dtype": "float32", "shape": [4]}
    given[0].write(np.arange(4, dtype=np.float32))
    same.run_by_index(1, given, found)
    assert found[0].read(4, np.float32).tolist() == [0, 2, 4, 6]
    # An input takes the shape of its buffer, as far as the file leaves lengths open.
    given[0] = TensorBuffer(np.ones(3, np.float32))
    same.run_by_index(1, given, found)
    assert found[0].read(3, np.float32).tolist() == [2, 2, 2]
    assert same.create_output_buffers(1)[0].get_tensor_details()["shape"] == [3]
    with pytest.raises(RuntimeError, match="auto-resize tensor b: invalid dimension size 0 at index 0"):
        same.run_by_index(1, [TensorBuffer(np.zeros(0, np.float32))], found)
    for shapes, reason in (
        (((5, 3), (4, 3)), "Failed to allocate tensors: .*cannot broadcast"),
        (((5, 4), (5, 3)), "auto-resize tensor x: .* only allows mutating"),
        (((5, 3), (3,)), "auto-resize tensor y: rank mismatch"),
    ):
        with pytest.raises(RuntimeError, match=reason):
            model.run_by_index(0, [TensorBuffer(np.zeros(each, np.float32)) for each in shapes], found)


def test_options_are_created_when_they_are_read() -> None:
    options = Options.create()
    options.cpu_options.num_threads = 2
    options.gpu_options.enforce_f32 = True
    options.qualcomm_options.log_level = options.qualcomm_options.LOG_LEVEL.ERROR
    options.intel_openvino_options.configs_map["NUM_STREAMS"] = "1"
    assert options.cpu_options.num_threads == 2
    assert Options() == Options.create() != options
    assert CompiledModel.from_buffer(two_signatures().build(), options=options).get_signature_index("") == 0


def test_a_closed_environment_opens_no_models() -> None:
    with Environment.create() as environment:
        CompiledModel.from_buffer(sums().build(), environment=environment)
    with pytest.raises(ValueError, match="Environment is no longer valid"):
        CompiledModel.from_buffer(sums().build(), environment=environment)


def test_accelerators_that_are_not_there() -> None:
    content = sums().build()
    with pytest.raises(RuntimeError, match="no device of the kinds NPU is there"):
        CompiledModel.from_buffer(content, HardwareAccelerator.NPU)
    both = CompiledModel.from_buffer(content, HardwareAccelerator.NPU | HardwareAccelerator.CPU)
    assert not both.is_fully_accelerated()
    with pytest.raises(ValueError, match="not both"):
        CompiledModel.from_buffer(content, HardwareAccelerator.CPU, options=Options())


@pytest.mark.parametrize("mode", list(CpuKernelMode))
def test_only_kernels_of_a_delegate_are_called_accelerated(mode: CpuKernelMode) -> None:
    options = Options(cpu_options=CpuOptions(num_threads=2, kernel_mode=mode))
    found = CompiledModel.from_buffer(sums().build(), options=options).is_fully_accelerated()
    assert found is (mode is CpuKernelMode.DELEGATE)


def test_operations_on_references_are_not_called_accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_device(), "compiles", False)
    assert not CompiledModel.from_buffer(sums().build()).is_fully_accelerated()


def test_arguments_of_wrong_types(model: CompiledModel, tmp_path: Path) -> None:
    path = sums().write(tmp_path / "m.tflite")
    assert CompiledModel.from_file(os.fsencode(path)).get_num_signatures() == 1
    calls: tuple[tuple[Any, Any], ...] = (
        (CompiledModel.from_buffer, path),
        (CompiledModel.from_buffer, None),
        (CompiledModel.from_file, 3),
        (model.get_signature_index, None),
        (model.get_input_tensor_details, 0),
        (model.get_signature_by_index, 0.0),
        (model.create_input_buffers, "0"),
        (model.get_output_buffer_requirements, None),
        (lambda wrong: model.create_input_buffer_by_name("", wrong), 3),
        (lambda wrong: model.create_input_buffer_by_name("zz", wrong), None),
        (lambda wrong: model.create_output_buffer_by_name(wrong, "z"), None),
        (lambda wrong: model.resize_input_tensor(0, wrong), 3),
        (lambda wrong: model.resize_input_tensor(0, wrong), [2.0, 3.0]),
        (lambda wrong: model.resize_input_tensor(wrong, [2, 3]), 1.0),
        (lambda wrong: model.run_by_index(wrong, [], []), 0.0),
        (lambda wrong: model.run_by_index(0, wrong, []), None),
        (lambda wrong: model.run_by_name(wrong, {}, {}), 0),
        (lambda wrong: model.create_input_buffers(0)[0].read(wrong, np.float32), 1.5),
    )
    for call, wrong in calls:
        with pytest.raises(TypeError):
            call(wrong)
    no_buffer: tuple[Any, ...] = (None, X)
    for wrong in no_buffer:
        with pytest.raises(AttributeError, match="has no attribute 'capsule'"):
            model.run_by_index(0, [wrong], [])
        with pytest.raises(AttributeError, match="has no attribute 'capsule'"):
            model.run_by_name("", {"x": wrong}, {})
    no_options: Any = 3
    with pytest.raises(AttributeError, match="has no attribute 'dispatch_library_path'"):
        Environment.create(options=no_options)
    for name in ("runtime_path", "compiler_plugin_path", "dispatch_library_path"):
        with pytest.raises(TypeError, match="CreateEnvironment"):
            Environment.create(**{name: no_options})
    as_bytes: Any = b"serving_default"
    assert model.get_signature_index(as_bytes) == 0
    for key in ("", as_bytes):
        with pytest.raises(ValueError, match="Unknown signature"):
            model.resize_input_tensor_by_name(key, "x", [2, 3])


def test_files_that_cannot_be_loaded() -> None:
    with pytest.raises(RuntimeError, match="Failed to load model from file"):
        CompiledModel.from_file("nothing.tflite")
    with pytest.raises(RuntimeError, match="Failed to load model from buffer"):
        CompiledModel.from_buffer(b"xx")
