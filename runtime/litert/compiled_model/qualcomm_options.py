"""LiteRT's options of Qualcomm's processors, without effect, as its plug-ins do not run here."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from neurald.runtime.litert.compiled_model.option_numbers import (
    UNSET,
    optional_bool_to_int,
    optional_enum_to_int,
)


class QualcommLogLevel(enum.IntEnum):
    """Levels of the log of Qualcomm's libraries."""

    OFF = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    VERBOSE = 4
    DEBUG = 5


class QualcommHtpPerformanceMode(enum.IntEnum):
    """Performance modes of the tensor processor."""

    DEFAULT = 0
    SUSTAINED_HIGH_PERFORMANCE = 1
    BURST = 2
    HIGH_PERFORMANCE = 3
    POWER_SAVER = 4
    LOW_POWER_SAVER = 5
    HIGH_POWER_SAVER = 6
    LOW_BALANCED = 7
    BALANCED = 8
    EXTREME_POWER_SAVER = 9


class QualcommDspPerformanceMode(enum.IntEnum):
    """Performance modes of the signal processor."""

    DEFAULT = 0
    SUSTAINED_HIGH_PERFORMANCE = 1
    BURST = 2
    HIGH_PERFORMANCE = 3
    POWER_SAVER = 4
    LOW_POWER_SAVER = 5
    HIGH_POWER_SAVER = 6
    LOW_BALANCED = 7
    BALANCED = 8


class QualcommProfiling(enum.IntEnum):
    """Kinds of profiles."""

    OFF = 0
    BASIC = 1
    DETAILED = 2
    LINTING = 3
    OPTRACE = 4


class QualcommOptimizationLevel(enum.IntEnum):
    """Goals for which graphs are optimised."""

    OPTIMIZE_FOR_INFERENCE = 0
    OPTIMIZE_FOR_PREPARE = 1
    OPTIMIZE_FOR_INFERENCE_O3 = 2


class QualcommGraphPriority(enum.IntEnum):
    """Priorities of graphs."""

    DEFAULT = 0
    LOW = 1
    NORMAL = 2
    NORMAL_HIGH = 3
    HIGH = 4


class QualcommBackend(enum.IntEnum):
    """Kinds of processors."""

    UNDEFINED = 0
    GPU = 1
    HTP = 2
    DSP = 3
    IR = 4


class QualcommGraphIOTensorMemType(enum.IntEnum):
    """Kinds of memory of inputs and outputs."""

    RAW = 0
    MEM_HANDLE = 1


@dataclass
class QualcommOptions:
    """Options of Qualcomm's processors, without effect."""

    LOG_LEVEL: ClassVar = QualcommLogLevel
    HTP_PERFORMANCE_MODE: ClassVar = QualcommHtpPerformanceMode
    DSP_PERFORMANCE_MODE: ClassVar = QualcommDspPerformanceMode
    PROFILING: ClassVar = QualcommProfiling
    OPTIMIZATION_LEVEL: ClassVar = QualcommOptimizationLevel
    GRAPH_PRIORITY: ClassVar = QualcommGraphPriority
    BACKEND: ClassVar = QualcommBackend
    GRAPH_IO_TENSOR_MEM_TYPE: ClassVar = QualcommGraphIOTensorMemType

    log_level: QualcommLogLevel | None = None
    htp_performance_mode: QualcommHtpPerformanceMode | None = None
    dsp_performance_mode: QualcommDspPerformanceMode | None = None
    use_int64_bias_as_int32: bool | None = None
    enable_weight_sharing: bool | None = None
    use_conv_hmx: bool | None = None
    use_fold_relu: bool | None = None
    profiling: QualcommProfiling | None = None
    dump_tensor_ids: Sequence[int] | None = None
    ir_json_dir: str = ""
    dlc_dir: str = ""
    vtcm_size: int | None = None
    num_hvx_threads: int | None = None
    optimization_level: QualcommOptimizationLevel | None = None
    graph_priority: QualcommGraphPriority | None = None
    backend: QualcommBackend | None = None
    saver_output_dir: str = ""
    graph_io_tensor_mem_type: QualcommGraphIOTensorMemType | None = None

    def _as_flat_kwargs(self) -> dict[str, Any]:
        return {
            "qualcomm_log_level": optional_enum_to_int(self.log_level),
            "qualcomm_htp_performance_mode": optional_enum_to_int(self.htp_performance_mode),
            "qualcomm_dsp_performance_mode": optional_enum_to_int(self.dsp_performance_mode),
            "qualcomm_use_int64_bias_as_int32": optional_bool_to_int(self.use_int64_bias_as_int32),
            "qualcomm_enable_weight_sharing": optional_bool_to_int(self.enable_weight_sharing),
            "qualcomm_use_conv_hmx": optional_bool_to_int(self.use_conv_hmx),
            "qualcomm_use_fold_relu": optional_bool_to_int(self.use_fold_relu),
            "qualcomm_profiling": optional_enum_to_int(self.profiling),
            "qualcomm_has_dump_tensor_ids": self.dump_tensor_ids is not None,
            "qualcomm_dump_tensor_ids": list(self.dump_tensor_ids or []),
            "qualcomm_ir_json_dir": self.ir_json_dir,
            "qualcomm_dlc_dir": self.dlc_dir,
            "qualcomm_vtcm_size": UNSET if self.vtcm_size is None else self.vtcm_size,
            "qualcomm_num_hvx_threads": UNSET if self.num_hvx_threads is None else self.num_hvx_threads,
            "qualcomm_optimization_level": optional_enum_to_int(self.optimization_level),
            "qualcomm_graph_priority": optional_enum_to_int(self.graph_priority),
            "qualcomm_backend": optional_enum_to_int(self.backend),
            "qualcomm_saver_output_dir": self.saver_output_dir,
            "qualcomm_graph_io_tensor_mem_type": optional_enum_to_int(self.graph_io_tensor_mem_type),
        }
