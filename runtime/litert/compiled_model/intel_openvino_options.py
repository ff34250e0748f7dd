"""LiteRT's options of Intel's plug-in, which have no effect: LiteRT's plug-ins do not run here."""

import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar

from neurald.runtime.litert.compiled_model.option_numbers import optional_bool_to_int, optional_enum_to_int


class IntelOpenVinoGraphBackend(enum.IntEnum):
    """Kinds of devices of the plug-in."""

    CPU = 0
    GPU = 1
    NPU = 2


class IntelOpenVinoPerformanceMode(enum.IntEnum):
    """Goals for which the plug-in optimises."""

    LATENCY = 0
    THROUGHPUT = 1
    CUMULATIVE_THROUGHPUT = 2


@dataclass
class IntelOpenVinoOptions:
    """Options of Intel's plug-in, without effect."""

    GRAPH_BACKEND: ClassVar = IntelOpenVinoGraphBackend
    PERFORMANCE_MODE: ClassVar = IntelOpenVinoPerformanceMode

    graph_backend: IntelOpenVinoGraphBackend | None = None
    performance_mode: IntelOpenVinoPerformanceMode | None = None
    configs_map: dict[str, str] = field(default_factory=dict)
    enable_weight_sharing: bool | None = None

    def _as_flat_kwargs(self) -> dict[str, Any]:
        return {
            "intel_openvino_graph_backend": optional_enum_to_int(self.graph_backend),
            "intel_openvino_performance_mode": optional_enum_to_int(self.performance_mode),
            "intel_openvino_configs_map": dict(self.configs_map),
            "intel_openvino_enable_weight_sharing": optional_bool_to_int(self.enable_weight_sharing),
        }
