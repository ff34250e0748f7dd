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
    assert_type(found.experimental_compress_quantization_zero_points, bool)
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
    paths = litert.EnvironmentOptions(
        runtime_path="", compiler_plugin_path="plugins", dispatch_library_path="libraries"
    )
    environment = litert.Environment.create(options=paths)
    print(environment.options, environment.capsule)
    options = litert.Options(
        hardware_accelerators=litert.HardwareAccelerator.CPU | litert.HardwareAccelerator.GPU,
        cpu_options=litert.CpuOptions(
            num_threads=2,
            kernel_mode=litert.CpuKernelMode.BUILTIN,
            enable_ynnpack=True,
            xnnpack_flags=1,
            xnnpack_weight_cache_path="weights",
        ),
        gpu_options=litert.GpuOptions(
            enforce_f32=True,
            constant_tensor_sharing=True,
            infinite_float_capping=True,
            benchmark_mode=True,
            allow_src_quantized_fc_conv_ops=True,
            hint_waiting_for_completion=True,
        ),
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
        assert_type(model.get_num_signatures(), int)
        assert_type(model.get_signature_list(), dict[str, dict[str, list[str]]])
        assert_type(model.get_signature_by_index(0), dict[str, Any])
        assert_type(model.get_input_tensor_details("add"), dict[str, Any])
        assert_type(model.get_output_tensor_details("add"), dict[str, Any])
        assert_type(model.get_input_buffer_requirements(0, signature_index=0), dict[str, Any])
        assert_type(model.get_output_buffer_requirements(0, signature_index=0), dict[str, Any])
        assert_type(model.create_input_buffer_by_name("add", "x"), litert.TensorBuffer)
        assert_type(model.create_output_buffer_by_name("add", "y"), litert.TensorBuffer)
        print(model.environment, inputs[0].get_tensor_details(), inputs[0].capsule)
    default = litert.Options.create()
    print(default.cpu_options, default.gpu_options, default.qualcomm_options)
    print(default.intel_openvino_options, default.hardware_accelerators)
    litert.CompiledModel.from_buffer(b"TFL3", hardware_accel=litert.HardwareAccelerator.CPU).close()
    environment.close()
    litert.TensorBuffer.create_from_host_memory(np.zeros(3, np.float32)).destroy()


def qualcomm() -> litert.QualcommOptions:
    kind = litert.QualcommOptions
    print(kind.LOG_LEVEL, kind.HTP_PERFORMANCE_MODE, kind.DSP_PERFORMANCE_MODE, kind.PROFILING)
    print(kind.OPTIMIZATION_LEVEL, kind.GRAPH_PRIORITY, kind.BACKEND, kind.GRAPH_IO_TENSOR_MEM_TYPE)
    return litert.QualcommOptions(
        use_int64_bias_as_int32=True,
        enable_weight_sharing=True,
        use_conv_hmx=True,
        use_fold_relu=True,
        dump_tensor_ids=[1],
        ir_json_dir="graphs",
        dlc_dir="containers",
        saver_output_dir="calls",
        vtcm_size=1,
        num_hvx_threads=1,
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
    kind = litert.IntelOpenVinoOptions
    print(kind.GRAPH_BACKEND, kind.PERFORMANCE_MODE)
    return litert.IntelOpenVinoOptions(
        configs_map={"NUM_STREAMS": "1"},
        enable_weight_sharing=True,
        graph_backend=litert.IntelOpenVinoGraphBackend.NPU,
        performance_mode=litert.IntelOpenVinoPerformanceMode.LATENCY,
    )
