"""Options of LiteRT's CompiledModel, and the accelerators that they choose."""

import enum
from dataclasses import dataclass
from typing import Any, Final

from neurald.runtime.litert.arguments import flag, integer, text
from neurald.runtime.litert.compiled_model.intel_openvino_options import IntelOpenVinoOptions
from neurald.runtime.litert.compiled_model.option_numbers import UNSET, optional_enum_to_int
from neurald.runtime.litert.compiled_model.qualcomm_options import QualcommOptions


class HardwareAccelerator(enum.IntFlag):
    """Kinds of devices: CPU, GPU, and NPU, which is Android's accelerator."""

    CPU = 1
    GPU = 2
    NPU = 4


class CpuKernelMode(enum.IntEnum):
    """Implementations that run on the CPU: compiled kernels, or references (REFERENCE)."""

    DELEGATE = 0
    XNNPACK = 0
    REFERENCE = 1
    BUILTIN = 2


@dataclass
class CpuOptions:
    """Options of the CPU.

    Attributes:
        num_threads: number of threads; 0 for one.
        kernel_mode: see `CpuKernelMode`; None for compiled kernels.
        enable_ynnpack: has no effect.
        xnnpack_flags: has no effect.
        xnnpack_weight_cache_path: has no effect.
    """

    num_threads: int = 0
    kernel_mode: CpuKernelMode | None = None
    enable_ynnpack: bool = False
    xnnpack_flags: int | None = None
    xnnpack_weight_cache_path: str = ""

    def _as_flat_kwargs(self) -> dict[str, Any]:
        return {
            "cpu_num_threads": self.num_threads,
            "cpu_kernel_mode": optional_enum_to_int(self.kernel_mode),
            "cpu_enable_ynnpack": self.enable_ynnpack,
            "xnnpack_flags": UNSET if self.xnnpack_flags is None else self.xnnpack_flags,
            "xnnpack_weight_cache_path": self.xnnpack_weight_cache_path,
        }


@dataclass
class GpuOptions:
    """Options of LiteRT's GPU delegate, without effect but for `enforce_f32`.

    Attributes:
        enforce_f32: computes float32 models in float32, which drivers do anyway.
        constant_tensor_sharing: has no effect.
        infinite_float_capping: has no effect.
        benchmark_mode: has no effect.
        allow_src_quantized_fc_conv_ops: has no effect.
        hint_waiting_for_completion: has no effect.
    """

    enforce_f32: bool = False
    constant_tensor_sharing: bool = False
    infinite_float_capping: bool = False
    benchmark_mode: bool = False
    allow_src_quantized_fc_conv_ops: bool = False
    hint_waiting_for_completion: bool = False

    def _as_flat_kwargs(self) -> dict[str, Any]:
        return {
            "gpu_enforce_f32": self.enforce_f32,
            "gpu_share_constant_tensors": self.constant_tensor_sharing,
            "enable_constant_tensor_sharing": self.constant_tensor_sharing,
            "enable_infinite_float_capping": self.infinite_float_capping,
            "enable_benchmark_mode": self.benchmark_mode,
            "enable_allow_src_quantized_fc_conv_ops": self.allow_src_quantized_fc_conv_ops,
            "enable_hint_waiting_for_completion": self.hint_waiting_for_completion,
        }


@dataclass(init=False)
class Options:
    """Options of a compiled model. Groups that are not given are created when they are first read.

    Args:
        hardware_accelerators: the kinds of devices that may be used.
        cpu_options: options of the CPU.
        gpu_options: options of the GPU.
        qualcomm_options: have no effect.
        intel_openvino_options: have no effect.
    """

    hardware_accelerators: HardwareAccelerator = HardwareAccelerator.CPU
    _cpu_options: CpuOptions | None = None
    _gpu_options: GpuOptions | None = None
    _qualcomm_options: QualcommOptions | None = None
    _intel_openvino_options: IntelOpenVinoOptions | None = None

    def __init__(
        self,
        hardware_accelerators: HardwareAccelerator = HardwareAccelerator.CPU,
        cpu_options: CpuOptions | None = None,
        gpu_options: GpuOptions | None = None,
        qualcomm_options: QualcommOptions | None = None,
        intel_openvino_options: IntelOpenVinoOptions | None = None,
    ) -> None:
        self.hardware_accelerators = hardware_accelerators
        self._cpu_options = cpu_options
        self._gpu_options = gpu_options
        self._qualcomm_options = qualcomm_options
        self._intel_openvino_options = intel_openvino_options

    @classmethod
    def create(cls) -> "Options":
        """Returns the default options."""
        return cls()

    @property
    def cpu_options(self) -> CpuOptions:
        """Options of the CPU, which may be changed."""
        if self._cpu_options is None:
            self._cpu_options = CpuOptions()
        return self._cpu_options

    @property
    def gpu_options(self) -> GpuOptions:
        """Options of the GPU, which may be changed."""
        if self._gpu_options is None:
            self._gpu_options = GpuOptions()
        return self._gpu_options

    @property
    def qualcomm_options(self) -> QualcommOptions:
        """Options of Qualcomm's processors, which may be changed, without effect."""
        if self._qualcomm_options is None:
            self._qualcomm_options = QualcommOptions()
        return self._qualcomm_options

    @property
    def intel_openvino_options(self) -> IntelOpenVinoOptions:
        """Options of Intel's plug-in, which may be changed, without effect."""
        if self._intel_openvino_options is None:
            self._intel_openvino_options = IntelOpenVinoOptions()
        return self._intel_openvino_options

    def _as_flat_kwargs(self) -> dict[str, Any]:
        """Returns all options by the names of LiteRT's native call, converted as it does.

        Raises:
            AttributeError: a group of options is something else.
            TypeError: an option has a wrong type.
        """
        values = {"hardware_accel": int(self.hardware_accelerators)}
        for given, defaults in (
            (self._cpu_options, CpuOptions()),
            (self._gpu_options, GpuOptions()),
            (self._qualcomm_options, QualcommOptions()),
            (self._intel_openvino_options, IntelOpenVinoOptions()),
        ):
            values |= (defaults if given is None else given)._as_flat_kwargs()
        return {name: _converted(name, value) for name, value in values.items()}


#: The options of the native call that are not integers, by the beginnings and ends of their names.
_FLAGS: Final = ("gpu_", "enable_", "cpu_enable_", "qualcomm_has_")
_TEXTS: Final = ("_path", "_dir")
_LISTS: Final = "qualcomm_dump_tensor_ids"
_MAPS: Final = "intel_openvino_configs_map"


def _converted(name: str, value: Any) -> Any:
    call = f"CreateCompiledModel: option {name}"
    if name.startswith(_FLAGS):
        return flag(value, call)
    if name.endswith(_TEXTS):
        return text(value, call)
    if name == _LISTS:
        return [integer(each, call) for each in value]
    if name == _MAPS:
        return {text(key, call): text(each, call) for key, each in value.items()}
    return integer(value, call)
