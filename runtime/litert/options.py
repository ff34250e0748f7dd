"""Options of LiteRT's CompiledModel, and the accelerators that they choose."""

import enum
from dataclasses import dataclass

from neurald.runtime.litert.intel_openvino_options import IntelOpenVinoOptions
from neurald.runtime.litert.qualcomm_options import QualcommOptions


class HardwareAccelerator(enum.IntFlag):
    """Kinds of devices: CPU, GPU, and NPU, which is Android's accelerator."""

    CPU = 1
    GPU = 2
    NPU = 4


class CpuKernelMode(enum.IntEnum):
    """Which implementations run on the CPU: compiled kernels, or references (REFERENCE)."""

    DELEGATE = 0
    REFERENCE = 1
    BUILTIN = 2

    XNNPACK = 0


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

    hardware_accelerators: HardwareAccelerator
    _cpu_options: CpuOptions | None
    _gpu_options: GpuOptions | None
    _qualcomm_options: QualcommOptions | None
    _intel_openvino_options: IntelOpenVinoOptions | None

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
