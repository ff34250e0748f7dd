"""A program that uses every public name of `neurald.litert`, for type checkers; it never runs."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

from neurald import litert

Array = np.ndarray[Any, Any]


def interpreter() -> None:
    found = litert.Interpreter(
        model_path="model.tflite",
        num_threads=2,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    found.allocate_tensors()
    first = found.get_input_details()[0]["index"]
    found.resize_tensor_input(first, (2, 3), strict=True)
    found.set_tensor(first, [[1.0, 2.0, 3.0]])
    assert_type(found.tensor(first), Callable[[], Array])
    found.invoke()
    found.reset_all_variables()
    assert_type(found.get_tensor(found.get_output_details()[0]["index"], 0), Array)
    assert_type(found.get_tensor_details(0), list[dict[str, Any]])
    assert_type(found.get_signature_list(), dict[str, dict[str, list[str]]])
    assert_type(found.num_subgraphs(), int)
    runner: litert.SignatureRunner = found.get_signature_runner("serving_default")
    assert_type(runner(x=np.zeros(3)), dict[str, Array])
    assert_type(runner.get_input_details(), dict[str, dict[str, Any]])
    assert_type(litert.load_delegate("delegate.so", {"option": 1}), litert.Delegate)


def custom_operators() -> litert.Interpreter:
    def several(inputs: Any, options: bytes) -> list[Array]:
        return [inputs[0], np.frombuffer(options, np.uint8)]

    function: litert.CustomFunction = several

    def register(operators: litert.CustomOperators) -> None:
        operators.add("Twice", lambda inputs, options: inputs[0] * 2)
        operators.add("Both", function)

    return litert.InterpreterWithCustomOps(
        custom_op_registerers=[register, "module.register"], model_content=b"TFL3"
    )


def compiled_model() -> None:
    environment = litert.Environment.create(options=litert.EnvironmentOptions(runtime_path=""))
    options = litert.Options(
        hardware_accelerators=litert.HardwareAccelerator.CPU | litert.HardwareAccelerator.GPU,
        cpu_options=litert.CpuOptions(num_threads=2, kernel_mode=litert.CpuKernelMode.BUILTIN),
        gpu_options=litert.GpuOptions(enforce_f32=True),
        qualcomm_options=qualcomm(),
        intel_openvino_options=intel(),
    )
    with litert.CompiledModel.from_file("a.tflite", environment=environment, options=options) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        assert_type(inputs, list[litert.TensorBuffer])
        inputs[0].write(np.zeros(3, np.float32))
        model.run_by_index(0, inputs, outputs)
        model.run_by_name("add", {"x": inputs[0]}, {"y": outputs[0]})
        assert_type(outputs[0].read(3, np.float32), Array)
        model.resize_input_tensor(0, (4,), strict=False)
        model.resize_input_tensor_by_name("add", "x", [4])
        assert_type(model.is_fully_accelerated(), bool)
        assert_type(model.get_signature_index("add"), int)
    litert.TensorBuffer.create_from_host_memory(np.zeros(3, np.float32)).destroy()


def qualcomm() -> litert.QualcommOptions:
    return litert.QualcommOptions(
        log_level=litert.QualcommLogLevel(0),
        htp_performance_mode=litert.QualcommHtpPerformanceMode(0),
        dsp_performance_mode=litert.QualcommDspPerformanceMode(0),
        profiling=litert.QualcommProfiling(0),
        optimization_level=litert.QualcommOptimizationLevel(0),
        graph_priority=litert.QualcommGraphPriority(0),
        backend=litert.QualcommBackend.HTP,
        graph_io_tensor_mem_type=litert.QualcommGraphIOTensorMemType.RAW,
    )


def intel() -> litert.IntelOpenVinoOptions:
    return litert.IntelOpenVinoOptions(
        graph_backend=litert.IntelOpenVinoGraphBackend.NPU,
        performance_mode=litert.IntelOpenVinoPerformanceMode.LATENCY,
    )
