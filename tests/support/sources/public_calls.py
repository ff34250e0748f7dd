"""A program that uses every public name and call, for type checkers; it never runs."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, assert_type

import numpy as np

import neurald as nd

Array = np.ndarray[Any, np.dtype[Any]]
#: What functions return.
Result = np.ndarray[Any, Any]


def model() -> nd.Model:
    builder = nd.ModelBuilder()
    x = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1, 2), name="x")
    y = builder.add_operand(nd.OperandType.TENSOR_QUANT8_ASYMM, (1, 2), scale=0.5, zero_point=3)
    weights = builder.add_operand(
        nd.OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 2), channel_quant=(0, [0.5, 0.25])
    )
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, nd.FusedActivation.NONE)
    builder.set_operand_value_from_memory(weights, nd.Memory.allocate(4), 0, 4)
    builder.set_operand_value_from_model(x, nd.load_tflite("branch.tflite", shapes={"x": (1, 2)}))
    builder.set_operand_extension_data(x, b"data")
    builder.add_operation(nd.OperationType.ADD, [x, x, activation], [y])
    builder.add_operation(builder.extension_operation_type("com.example", 1), [x], [y])
    print(builder.extension_operand_type("com.example", 2), nd.PaddingScheme.SAME)
    builder.identify_inputs_and_outputs([x], [y])
    builder.relax_computation_float32_to_float16()
    found: nd.Model = builder.finish()
    names: Sequence[str | None] = found.input_names
    print(names, found.output_names, found.signatures, found.relaxed)
    return found


def devices() -> tuple[nd.Device, ...]:
    found: tuple[nd.Device, ...] = nd.devices(timeout=1.0)
    for device in found:
        kind: nd.DeviceType = device.type
        level: nd.FeatureLevel = device.feature_level
        print(device.name, kind, level, device.version)
    remote: nd.Device = nd.connect("tls://host:7070", token_file="token", tls=Path("certificates"))
    local: nd.Device = nd.open_device("opencl")
    verdicts: dict[str, tuple[nd.Verdict, ...]] = nd.supported_operations(model(), [local, remote])
    print([verdict.reason for each in verdicts.values() for verdict in each if not verdict.ok])
    return found


def compilation() -> nd.Compilation:
    builder = nd.CompilationBuilder(model(), devices(), 2)
    builder.set_preference(nd.Preference.LOW_POWER)
    builder.set_priority(nd.Priority.HIGH)
    builder.set_timeout(2.0)
    builder.set_caching(Path("cache"), bytes(32))
    overrides = (
        nd.pin("opencl", operation_type=nd.OperationType.CONV_2D),
        nd.forbid("cpu", [1, 2]),
        nd.prefer("cpu", output="y"),
    )
    builder.set_partitioning(nd.Partitioning(mode=nd.PartitioningMode.WITH_FALLBACK, overrides=overrides))
    builder.set_startup(nd.Startup.INSTANT)
    builder.set_verification(0.01)
    builder.set_progress_callback(progress)
    builder.add_extension_attribute("com.example", 1, b"value")
    found: nd.Compilation = builder.finish()
    status: nd.CompilationStatus = found.status
    steps: Sequence[nd.StepStatus] = status.steps
    print([each.tier is nd.StepTier.OPTIMIZED for each in steps], status.is_optimized)
    is_ready: bool = found.wait_until_optimized(timeout=1.0)
    outputs: list[Any] = found.run(np.zeros((1, 2), np.float32))
    print(is_ready, outputs, list(found.stream([[np.zeros(2)]], depth=2)), found.profile())
    print(found.explain(pin=overrides, kernels=True).to_html())
    print(found.preferred_memory_alignment_for_input(0), found.preferred_memory_padding_for_output(0))
    return found


def progress(step: nd.StepProgress) -> None:
    print(step.device, step.step, step.steps, step.share, step.elapsed_s)


def execution(compiled: nd.Compilation) -> None:
    running = nd.Execution(compiled, reusable=True)
    running.set_input(0, np.zeros((1, 2), np.float32), (1, 2))
    running.set_output(0, np.zeros((1, 2), np.uint8))
    memory: nd.Memory = nd.Memory.allocate(64)
    running.set_input_from_memory(0, memory, 0, 8, (1, 2))
    running.set_output_from_memory(0, memory, 8, 2)
    running.set_timeout(1.0)
    running.set_loop_timeout(1.0)
    running.set_measure_timing()
    running.enable_receipt()
    running.enable_input_and_output_padding()
    running.compute()
    burst: nd.Burst = compiled.create_burst()
    running.compute(burst=burst)
    burst.close()
    event: nd.Event = running.start_compute()
    event.wait(timeout=1.0)
    with_fence: nd.Event = running.start_compute_with_dependencies([event], 0.5)
    imported: nd.Event = nd.Event.from_fence_fd(with_fence.fence_fd())
    receipt: nd.ExecutionReceipt | None = running.receipt
    print(imported.is_signalled, receipt and receipt.to_json())
    duration: int | None = running.duration(nd.Duration.ON_HARDWARE)
    shape: tuple[int, ...] = running.output_dimensions(0)
    print(duration, shape, running.output_rank(0), running.output_shapes())
    running.cancel()
    description = nd.MemoryDesc().add_input_role(compiled, 0).add_output_role(compiled, 0).finish()
    nd.Memory.copy(memory, description.allocate())
    print(memory.view(0, 8).nbytes, nd.Memory.from_fd(3, 64).size)


def function() -> None:
    with nd.compile(
        "model.tflite",
        device=["opencl", "cpu"],
        threads=2,
        startup=nd.Startup.OPTIMIZED,
        signature="serving_default",
        shapes={"x": (2,)},
        keep=["layer"],
        convert=True,
        receipts=True,
    ) as call:
        compiled: nd.CompiledFunction = call
        infos: tuple[nd.TensorInfo, ...] = compiled.inputs_info
        print([(each.name, each.shape, each.dtype, each.scale, each.zero_point) for each in infos])
        print([(each.scales, each.quantized_dimension) for each in compiled.outputs_info])
        assert_type(compiled.compilation, nd.Compilation)
        listed: list[Array] = compiled(np.zeros(2))
        named: dict[str, Array] = compiled({"x": np.zeros(2)})
        by_name: dict[str, Array] = compiled(x=np.zeros(2))
        pending: Future[list[Array]] = compiled.submit(np.zeros(2))
        # Any would accept each use of a result.
        assert_type(compiled.submit(np.zeros(2)), Future[list[Result]])
        assert_type(compiled.submit({"x": np.zeros(2)}), Future[dict[str, Result]])
        assert_type(compiled.submit(x=np.zeros(2)), Future[dict[str, Result]])
        print(listed, named, by_name, pending.result(), asyncio.run(asynchronous(compiled)))
        for outputs in compiled.stream([np.zeros(2), np.zeros(2)]):
            print(outputs[0].shape)
        for by_names in compiled.stream([{"x": np.zeros(2)}]):
            print(by_names["y"].shape)
        print(compiled.signatures["serving_default"](x=np.zeros(2)), compiled.summary())


async def asynchronous(compiled: nd.CompiledFunction) -> Array:
    assert_type(await compiled.run_async(np.zeros(2)), list[Result])
    assert_type(await compiled.run_async({"x": np.zeros(2)}), dict[str, Result])
    return (await compiled.run_async(x=np.zeros(2)))["y"]


def files_and_services() -> None:
    nd.save_plan(
        "model.tflite",
        "model.plan",
        devices(),
        2,
        signature="serving_default",
        preference=nd.Preference.LOW_POWER,
        priority=nd.Priority.LOW,
    )
    planned: nd.Compilation = nd.load_plan(
        "model.plan", devices(), trust=Path("key.pub"), startup=nd.Startup.INSTANT, sample=0.01
    )
    nd.warm(
        model(),
        devices(),
        preference=nd.Preference.LOW_POWER,
        priority=nd.Priority.LOW,
        attributes=[("com.example", 1, b"value")],
        directory=Path("cache"),
        token=bytes(32),
        inputs=[np.zeros(2)],
    )
    service: nd.Service = nd.connect_service(["/run/first.sock", "/run/second.sock"])
    served: nd.ServedModel = service.model("digits", 1)
    print(served.run([np.zeros(2)], timeout=1.0), served.last_receipt, served.inputs_info)
    assert_type(served(np.zeros(2)), list[Array])
    assert_type(served(x=np.zeros(2)), dict[str, Array])
    assert_type(served({"x": np.zeros(2)}), dict[str, Array])
    served.close()
    with nd.trace("trace.json", trace_id="0" * 31 + "1", exporter=None) as trace:
        recorded: nd.Trace = trace
        planned.run(np.zeros(2))
    text: str = nd.metrics()
    print(recorded.coverage(), text)


def errors() -> None:
    kinds: tuple[type[nd.Error], ...] = (
        nd.BadData,
        nd.BadState,
        nd.Cancelled,
        nd.DeadObject,
        nd.Incomplete,
        nd.MissedDeadlinePersistent,
        nd.MissedDeadlineTransient,
        nd.MissingFile,
        nd.OpFailed,
        nd.OutOfMemory,
        nd.OutputInsufficientSize,
        nd.ResourceExhaustedPersistent,
        nd.ResourceExhaustedTransient,
        nd.UnavailableDevice,
        nd.UnexpectedNull,
        nd.Unmappable,
        nd.WrongType,
    )
    try:
        raise kinds[0]("text")
    except nd.Error as error:
        code: nd.ResultCode = error.code
        print(code)
