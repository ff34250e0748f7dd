"""A model compiled for any lengths of its open dimensions, within the limits of its code."""

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial

from neurald.drivers.compiler.frontend.variants.kept_variants import OpenVariant
from neurald.drivers.opencl.open_artifact import write_open_artifact
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.runtime.buffer import OpenClBuffer
from neurald.drivers.opencl.runtime.constants import DeviceConstants
from neurald.drivers.opencl.runtime.instance_pool import InstancePool
from neurald.drivers.opencl.runtime.open_executable import LaunchSizes, OpenExecutable, SizedLaunches
from neurald.drivers.opencl.runtime.open_instance import OpenInstance
from neurald.drivers.opencl.runtime.portions import Portions
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult, OutputShape, Timing
from neurald.hal.errors import BadData, Error, OpFailed
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.request import Request
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Shape
from neurald.hal.process.exit import stop_at_exit
from neurald.hal.process.fork import keep_in_children
from neurald.hal.sync.cancellation import Cancellation


class OpenClOpenModel:
    """Implements `neurald.drivers.compiler.frontend.variants.open_models.OpenModel`.

    Args:
        device: the device that runs it.
        opened: the executable for any lengths. It has been checked.
        program: the program with its kernels.
        constants: its constants.
    """

    def __init__(
        self,
        device: DeviceContext,
        opened: OpenExecutable,
        program: BuiltProgram,
        constants: DeviceConstants,
    ) -> None:
        self._device = device
        self._opened = opened
        self._program = program
        self._constants = constants
        self._sized = SizedLaunches(opened, device.facts.max_allocation_bytes)
        new_instance = partial(OpenInstance, device, opened, self._sized, program, constants.buffer)
        self._pool: InstancePool[OpenInstance] = InstancePool([], new_instance)
        self._types = tuple([OperandType(port.type).dtype for port in opened.template.inputs])
        self._result_types = tuple([OperandType(port.type).dtype for port in opened.template.outputs])
        keep_in_children(self)
        stop_at_exit(self)

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
        """See `OpenModel.run_arrays`."""
        if any(
            array.dtype != kind or not array.flags.c_contiguous
            for array, kind in zip(arrays, self._types, strict=True)
        ):
            return None
        try:
            sizes = self._sized.sizes(shapes)
            if sizes is None:
                return None
            outputs = [
                np.empty(port.dimensions, kind)
                for port, kind in zip(sizes.outputs, self._result_types, strict=True)
            ]
            self._run(sizes, [each.ctypes.data for each in arrays], [each.ctypes.data for each in outputs])
        except Error:
            return None  # the same execution as a request reports it
        return outputs

    def execute(
        self, shapes: Sequence[Shape | None], request: Request, options: ExecuteOptions
    ) -> ExecutionResult | None:
        """See `OpenModel.execute`."""
        started = time.monotonic_ns()
        options.require_start()
        try:
            sizes = self._sized.sizes(shapes)
        except BadData:
            return None  # it is reported when the model for these shapes is made
        if sizes is None or not _is_on_host(request):
            return None
        shapes_out = tuple(
            [
                OutputShape(dimensions=port.dimensions, sufficient=port.size_bytes <= argument.length)
                for port, argument in zip(sizes.outputs, request.outputs, strict=True)
            ]
        )
        if not all(shape.sufficient for shape in shapes_out):
            return ExecutionResult(output_shapes=shapes_out)
        inputs, outputs = (
            [
                each.address_in(request.pools[each.pool or 0], port.size_bytes)
                for port, each in zip(ports, given, strict=True)
            ]
            for ports, given in ((sizes.inputs, request.inputs), (sizes.outputs, request.outputs))
        )
        on_device_ns, queued_ns = self._run(sizes, inputs, outputs, options.deadline_s, options.cancellation)
        timing = Timing(
            on_device_ns=on_device_ns,
            in_driver_ns=time.monotonic_ns() - started - queued_ns,
            queued_ns=queued_ns,
        )
        return ExecutionResult(output_shapes=shapes_out, timing=timing if options.measure else Timing())

    def _run(
        self,
        sizes: LaunchSizes,
        inputs: Sequence[int],
        outputs: Sequence[int],
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> tuple[int, int]:
        """Runs the step in these sizes; see `InstancePool.run`."""

        def use(instance: OpenInstance, portions: Portions | None, stops: Callable[[], bool]) -> int | None:
            return instance.run(sizes, inputs, outputs, portions, stops)

        return self._pool.run(use, deadline_s, cancellation)

    def stop(self, deadline_s: float) -> None:
        """See `Stoppable.stop`."""
        if not self._pool.stop(deadline_s):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

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


def _is_on_host(request: Request) -> bool:
    """Returns whether no argument is omitted, or in memory of the device."""
    return all(
        argument.pool is not None and not isinstance(request.pools[argument.pool], OpenClBuffer)
        for argument in (*request.inputs, *request.outputs)
    )
