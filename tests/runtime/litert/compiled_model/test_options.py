from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.litert_files import sums

from neurald.litert import (
    CompiledModel,
    CpuKernelMode,
    CpuOptions,
    GpuOptions,
    HardwareAccelerator,
    IntelOpenVinoOptions,
    Options,
    QualcommOptions,
)


def opened(**named: Any) -> CompiledModel:
    return CompiledModel.from_buffer(sums().build(), **named)


@sweep(
    "options",
    [
        Options(cpu_options=CpuOptions(num_threads="2")),  # type: ignore[arg-type]
        Options(cpu_options=CpuOptions(num_threads=1.5)),  # type: ignore[arg-type]
        Options(cpu_options=CpuOptions(num_threads=2**31)),
        Options(cpu_options=CpuOptions(xnnpack_weight_cache_path=3)),  # type: ignore[arg-type]
        Options(gpu_options=GpuOptions(enforce_f32="yes")),  # type: ignore[arg-type]
        Options(gpu_options=GpuOptions(benchmark_mode=np.array([0, 1]))),  # type: ignore[arg-type]
        Options(qualcomm_options=QualcommOptions(vtcm_size="4")),  # type: ignore[arg-type]
        Options(qualcomm_options=QualcommOptions(dump_tensor_ids=["a"])),  # type: ignore[list-item]
        Options(intel_openvino_options=IntelOpenVinoOptions(configs_map={"a": 1})),  # type: ignore[dict-item]
    ],
)
def test_options_of_wrong_types_are_refused(options: Options) -> None:
    with pytest.raises(TypeError, match=r"option .* incompatible function arguments\. .* is expected"):
        opened(options=options)


def test_something_else_than_options_is_refused() -> None:
    wrong: Any = 3
    for options in (wrong, Options(cpu_options=wrong), Options(gpu_options=wrong)):
        with pytest.raises(AttributeError, match="_as_flat_kwargs"):
            opened(options=options)


def test_kinds_of_devices_that_there_are_not_are_refused() -> None:
    number: Any
    for number in (0, -1, 8, 9):
        with pytest.raises(RuntimeError, match=f"hardware_accel is {number}; a combination of"):
            opened(options=Options(number))
    with pytest.raises(RuntimeError, match="No acceleration provided"):
        opened(hardware_accel=HardwareAccelerator(0))


def test_numbers_stand_for_members() -> None:
    wrong: Any = 1
    assert opened(hardware_accel=wrong).get_num_signatures() == 1
    reference = Options(cpu_options=CpuOptions(kernel_mode=wrong))
    assert not opened(options=reference).is_fully_accelerated()
    wrong = 7
    with pytest.raises(RuntimeError, match=r"kernel_mode is 7; one of 0 \(DELEGATE\), 1 \(REFERENCE\)"):
        opened(options=Options(cpu_options=CpuOptions(kernel_mode=wrong)))


def test_numbers_of_threads_have_bounds() -> None:
    for threads in (-1, 0, 5000):
        assert opened(options=Options(cpu_options=CpuOptions(num_threads=threads))).get_num_signatures() == 1


def test_options_are_named_as_in_the_native_call() -> None:
    options = Options.create()
    options.cpu_options.kernel_mode = CpuKernelMode.BUILTIN
    options.qualcomm_options.use_fold_relu = True
    values = options._as_flat_kwargs()
    assert (values["hardware_accel"], values["cpu_kernel_mode"], values["xnnpack_flags"]) == (1, 2, -1)
    assert (values["qualcomm_use_fold_relu"], values["qualcomm_use_conv_hmx"]) == (1, -1)
    assert values["intel_openvino_configs_map"] == {}
