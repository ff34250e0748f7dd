"""An OpenCL device that builds one program for many models.

Most of the build time of a small program is a fixed cost.
"""

from collections.abc import Iterable
from unittest.mock import patch

from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.opencl import assembly
from neurald.drivers.opencl.assembly import Compiled
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import program_text
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.runtime.executable import Executable
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses
from neurald.drivers.opencl.tuning.improvement import ImprovementBuild
from neurald.hal.device import Capabilities, Performance, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.hal.model.types import OperandType

_Use = tuple[Source, tuple[Base, ...]]


class _NotBuiltYet(Error):
    """Raised once a model is compiled up to its program."""


class BatchingDevice(OpenClDevice):
    """Models that were given to `build` share a program; others have their own, as usual.

    The device claims to be faster than the CPU device, so that it gets all operations it supports.
    """

    _shared: BuiltProgram | None = None
    _kernels: frozenset[str] = frozenset()
    _is_building = False

    def capabilities(self) -> Capabilities:
        fast, slow = (
            Performance(exec_time=0.01, power_usage=0.01),
            Performance(exec_time=1e6, power_usage=1e6),
        )
        return Capabilities(
            operand_performance=dict.fromkeys(OperandType, fast),
            relaxed_float32_scalar=fast,
            relaxed_float32_tensor=fast,
            if_performance=slow,
            while_performance=slow,
        )

    def build(self, models: Iterable[Model]) -> None:
        """Builds one program for all of these models, except those that cannot be compiled."""
        uses: list[_Use] = []
        self._kernels, self._is_building = frozenset(), True

        def recorded(found: Iterable[_Use], **options: object) -> str:
            uses.extend(found)
            return ""

        try:
            with patch.object(assembly, "program_text", recorded):
                for model in models:
                    try:
                        self.prepare_model(model, PrepareOptions())
                    except Error:
                        continue
        finally:
            self._is_building = False
        text = program_text(uses, has_fp64=self.facts.has_fp64)
        self._shared = BuiltProgram.from_source(self.context, text)

    def _built(
        self, compiled: Compiled, processes: HelperProcesses, *, is_measured: bool
    ) -> tuple[Executable, BuiltProgram, ImprovementBuild | None]:
        kernels = {call.kernel for call in compiled.executable.calls}
        if self._is_building:
            self._kernels |= kernels
            raise _NotBuiltYet
        if self._shared is not None and kernels <= self._kernels:
            return compiled.executable, self._shared, None
        return super()._built(compiled, processes, is_measured=is_measured)
