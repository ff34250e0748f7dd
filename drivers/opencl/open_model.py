"""A model compiled for any lengths of its open dimensions, within the limits of its code."""

from collections.abc import Sequence

from neurald.drivers.compiler.frontend.kept_variants import OpenVariant
from neurald.drivers.opencl.artifact import write_open_artifact
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.runtime.constants import DeviceConstants
from neurald.drivers.opencl.runtime.open_launches import OpenLaunches, SizedLaunches
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult
from neurald.hal.errors import OpFailed
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.types import Request
from neurald.hal.operations.machinery.call import Shape


class OpenClOpenModel:
    """Implements `neurald.drivers.compiler.frontend.shape_specialization.OpenModel`.

    Args:
        device: the device that runs it.
        opened: the executable for any lengths. It has been checked.
        program: the program with its kernels.
        constants: its constants.
    """

    def __init__(
        self,
        device: DeviceContext,
        opened: OpenLaunches,
        program: BuiltProgram,
        constants: DeviceConstants,
    ) -> None:
        self._device = device
        self._opened = opened
        self._program = program
        self._constants = constants
        self._sized = SizedLaunches(opened, device.facts.max_allocation_bytes)

    def output_shapes(self, shapes: Sequence[Shape | None]) -> tuple[Shape, ...] | None:
        """See `OpenModel.output_shapes`."""
        return self._sized.output_shapes(shapes)

    def for_shapes(self, shapes: Sequence[Shape | None]) -> OpenVariant | None:
        """See `OpenModel.for_shapes`."""
        executable = self._sized.executable(shapes)
        if executable is None:
            return None
        prepared = OpenClPreparedModel(
            self._device, executable, self._program, self._constants, is_launched=False
        )
        return OpenVariant(prepared, lambda: executable.arena_bytes)

    def run_arrays(self, shapes: tuple[Shape, ...], arrays: Sequence[Array]) -> list[Array] | None:
        """See `OpenModel.run_arrays`: executions of a shape have memory of their own."""
        return None

    def execute(
        self, shapes: Sequence[Shape | None], request: Request, options: ExecuteOptions
    ) -> ExecutionResult | None:
        """See `OpenModel.execute`: likewise."""
        return None

    def artifact(self) -> Artifact:
        """Returns the contents of cache files, see `read_open_artifact`.

        Raises:
            OpFailed: the constants are not kept.
            Error: the device failed.
        """
        contents = self._constants.contents
        if contents is None:
            raise OpFailed("the constants of a model with open dimensions are not kept for its artifact")
        # A binary is complete only after every kernel was launched.
        OpenClPreparedModel(self._device, self._sized.example(), self._program, self._constants)
        return write_open_artifact(self._opened, self._program.binary, contents)
