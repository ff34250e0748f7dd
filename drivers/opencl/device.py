"""The OpenCL device: describes itself and prepares models."""

import importlib
import logging
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Final

import numpy as np

from neurald._version import __version__
from neurald.drivers.compiler.frontend.supported_operations import supported_operations
from neurald.drivers.compiler.frontend.variants.kept_variants import PreparedWithOperands
from neurald.drivers.compiler.frontend.variants.open_dimensions import is_specified
from neurald.drivers.compiler.frontend.variants.open_variants import OpenVariants
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.compiler.frontend.variants.variant_cache import prepared_variant
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape
from neurald.drivers.compiler.passes.expansion.scatter_expansion import procedure_unsupported_reason
from neurald.drivers.compiler.passes.expansion.top_k_expansion import top_k_unsupported_reason
from neurald.drivers.opencl.artifact import read_artifact
from neurald.drivers.opencl.assembly import Compiled
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.kernels.kernel_set import KERNELS_VARIABLE, KernelSet
from neurald.drivers.opencl.open_artifact import read_open_artifact
from neurald.drivers.opencl.open_compiler import compile_open
from neurald.drivers.opencl.open_model import OpenClOpenModel
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import DEVICE_VARIABLE, DeviceContext, choose, discover
from neurald.drivers.opencl.platform.precision import Precision
from neurald.drivers.opencl.platform.reduction_order import SUMS_VARIABLE
from neurald.drivers.opencl.platform.storage import STORAGE_VARIABLE
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.runtime.buffer import OpenClBuffer
from neurald.drivers.opencl.runtime.constants import DeviceConstants
from neurald.drivers.opencl.runtime.executable import Executable
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.runtime.self_test import require_correct
from neurald.drivers.opencl.settings import process_settings
from neurald.drivers.opencl.tuning.build_helper import build_kernels
from neurald.drivers.opencl.tuning.calibration import calibrated, estimated, known
from neurald.drivers.opencl.tuning.choices import Choices
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses
from neurald.drivers.opencl.tuning.improvement import ImprovementBuild
from neurald.drivers.opencl.tuning.tuning import Tuner, Tuning, select_faster
from neurald.drivers.settings import Settings
from neurald.hal.accounting.account import temporary
from neurald.hal.buffers.tracked_buffer import bytes_for, described_uses
from neurald.hal.cache.sources import sources_digest
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    BufferRole,
    CacheFilesNeeded,
    Capabilities,
    ExecuteOptions,
    OpenDevice,
    PrepareOptions,
    Verdict,
    require_supported,
)
from neurald.hal.errors import (
    BadData,
    DeadObject,
    Error,
    OpFailed,
    OutOfMemory,
    UnavailableDevice,
)
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import DeviceType, FeatureLevel
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace

_LOG = logging.getLogger(__name__)

#: Precision of relaxed models, whatever the device prefers: f32, f32_f16 or f16.
PRECISION_VARIABLE = "NEURALD_OPENCL_PRECISION"
#: Sources that determine compiled code: this driver, its compiler, and the reference
#: implementations used for constant folding.
_SOURCES = ("drivers/compiler", "drivers/opencl", "hal")
#: Variables whose effects are part of the facts.
_IN_FACTS = frozenset({DEVICE_VARIABLE, STORAGE_VARIABLE, SUMS_VARIABLE})

_TYPES = {
    DeviceKind.GPU: DeviceType.GPU,
    DeviceKind.CPU: DeviceType.CPU,
    DeviceKind.ACCELERATOR: DeviceType.ACCELERATOR,
}
#: Modules that pyopencl imports only when the first model is prepared.
_NEEDED_AT_FIRST = ("pyopencl.characterize",)
#: Kernels compute indices in 32 bits.
_MAX_ELEMENTS = 2**31 - 1


class OpenClDevice(OpenDevice):
    """Implements `neurald.hal.device.Device`.

    The OpenCL device is opened when the first model is prepared.

    Args:
        facts: the device.
        is_fused: whether operations are fused into larger kernels.
        settings: the settings that `facts` were found with; None for those of this process.

    Attributes:
        copies: counts the transfers of device memory to and from the host.
        choices: the sources that are known to be fastest.
    """

    name = "opencl"
    is_remote = False
    feature_level = FeatureLevel.LEVEL_8
    extensions = ("neurald.tflite",)
    #: One memory with machine code and execution data, one with constants.
    cache_files_needed = CacheFilesNeeded(model=1, data=1)

    def __init__(
        self,
        facts: DeviceFacts,
        *,
        is_fused: bool = True,
        settings: Settings | None = None,
    ) -> None:
        self.facts = facts
        self.type = _TYPES[facts.kind]
        self._settings = process_settings() if settings is None else settings
        self._is_fused = is_fused
        self._opening = forkable_lock()
        self._context: DeviceContext | None = None
        self._refused = ""
        self._capabilities: Capabilities | None = None
        self.choices = Choices.of_device(facts.name)

    @cached_property
    def version(self) -> str:
        """See `Device.version`.

        The version covers everything that affects compilation except the model and the options.
        """
        parts = [
            f"neurald opencl {__version__}",
            f"sources {sources_digest(*_SOURCES)}",
            f"numpy {np.__version__}",
            f"limits {self.facts.limits_digest}",
            "" if self._is_fused else "not fused",
            self._settings.description(without=_IN_FACTS),
            self.facts.digest,
        ]
        return ", ".join(filter(None, parts))

    @property
    def context(self) -> DeviceContext:
        """The open device; opens and checks it on first use.

        Raises:
            OpFailed: it computes wrong results.
            Error: the device cannot be opened.
        """
        with self._opening:
            self._require_right()
            if self._context is None:
                context = DeviceContext(self.facts)
                try:
                    require_correct(context)
                except OpFailed as error:
                    self._refused = str(error)
                    raise
                self._context = context
            return self._context

    def _require_right(self) -> None:
        if self._refused:
            raise OpFailed(self._refused)

    def open_ahead(self) -> None:
        """See `OpensAhead.open_ahead`."""
        _ = self.context

    @property
    def is_lost(self) -> bool:
        """See `KnowsLoss.is_lost`."""
        context = self._context
        return context is not None and context.state.is_lost

    @property
    def executions_at_once(self) -> int:
        """See `RunsConcurrently`: one execution transfers data while the other one computes."""
        return 2

    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`.

        They are relative to the CPU device, and kept per version of both; estimates until `measure`
        was called.
        """
        if self._capabilities is None:
            # Looking for them takes tens of milliseconds, and executions that refine costs ask for
            # them.
            self._capabilities = known(self) or estimated(self.type)
        return self._capabilities

    def measure(self) -> None:
        """See `MeasuresItself.measure`; opens the device unless it was measured before."""
        if known(self) is None:
            try:
                self.open_ahead()
            except Error as error:
                # A model that fails would only make the device count as very slow.
                raise UnavailableDevice(str(error)) from error
        self._capabilities = calibrated(self)

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """See `Device.supported_operations`.

        An operation is supported if it has a lowering, and the device supports its types and sizes.
        """
        return supported_operations(model, self._unsupported_reason)

    def _unsupported_reason(self, graph: Graph) -> str:
        if self._refused:
            return self._refused
        for node in graph.nodes:
            for value in (node.output, *node.inputs):
                if value.type is Scalar.FLOAT64 and not self.facts.has_fp64:
                    return f"{self.facts.name} does not support float64"
                if value.count > _MAX_ELEMENTS or value.size_bytes > self.facts.max_allocation_bytes:
                    return f"{list(value.shape)} is too large for {self.facts.name}"
        return top_k_unsupported_reason(graph) or procedure_unsupported_reason(graph)

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedWithOperands:
        """See `Device.prepare_model`.

        Models with unspecified dimensions are compiled when an execution provides the shapes: once
        for any lengths of these dimensions, if that is possible, and on GPUs for shapes that are
        frequent.
        """
        options.require_time()
        # Clients may have asked what the device supports before it was opened.
        self._require_right()
        require_supported(self, model)
        if not is_specified(model):
            prepare = partial(self._variant, options)
            return SpecializingModel(
                model,
                prepare,
                owner=self,
                tolerant=True,
                open_models=OpenVariants(
                    model=model,
                    compile_open=partial(self._compiled_open, options),
                    restore=self._restored_open,
                    variants=options.variants,
                ),
                # Compilers for CPUs hold a lock that executions need.
                specialize=None if self.facts.is_cpu else prepare,
            )
        prepared = self._compiled(model, {}, options)
        options.require_wanted("while the model was prepared")
        return prepared

    def _variant(
        self, options: PrepareOptions, model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions
    ) -> OpenClPreparedModel:
        """Returns a model for these input shapes, from the cache if possible."""
        # The limits of the preparation no longer apply; those of the execution do.
        later = replace(
            options,
            deadline_s=limits.deadline_s,
            cancellation=limits.cancellation,
            cache_key=options.cache_key if options.variants else b"",
        )
        if options.variants is None:
            return self._compiled(model, shapes, later)
        return prepared_variant(
            options.variants,
            shapes,
            restore=lambda artifact: self.prepare_model_from_cache(artifact, later),
            prepare=lambda: self._compiled(model, shapes, later),
        )

    @temporary()
    def _compiled(
        self, model: Model, input_shapes: Mapping[int, Shape], options: PrepareOptions
    ) -> OpenClPreparedModel:
        """Compiles a model for these input shapes."""
        started = time.monotonic()
        tuning = Tuning.of(options.preference, self.facts, self._settings)
        processes = HelperProcesses(self.facts, len(model.main.operations))
        try:
            tuner = Tuner(self.context, tuning, options.require_wanted, self.choices, processes)
            compiled = compile_model(
                model,
                input_shapes,
                self.context.facts,
                precision=self._precision(model),
                choose=tuner.choose,
                is_fused=self._is_fused,
                kernel_set=self._kernel_set,
                require_wanted=options.require_wanted,
            )
            options.require_wanted("before the kernels were built")
            executable, program, build = self._built(
                compiled, processes, is_measured=tuning is not Tuning.FAST
            )
        finally:
            processes.close()
        prepared = self._prepared(executable, program, compiled.constants, options, build)
        _LOG.info(
            "%s: %d operations as %d kernels, %d bytes of values (%d without sharing), in %.0f ms",
            self.name,
            len(model.main.operations),
            len(executable.calls),
            executable.arena_bytes,
            executable.unshared_bytes,
            (time.monotonic() - started) * 1e3,
        )
        return prepared

    @temporary()
    def _compiled_open(
        self, options: PrepareOptions, model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions
    ) -> OpenClOpenModel | None:
        """Compiles a model for any lengths of its open dimensions; see `OpenModels.get`."""
        later = replace(options, deadline_s=limits.deadline_s, cancellation=limits.cancellation)
        compiled = compile_open(
            model,
            shapes,
            self.context.facts,
            precision=self._precision(model),
            is_fused=self._is_fused,
            kernel_set=self._kernel_set,
            require_wanted=later.require_wanted,
        )
        if compiled is None:
            return None
        later.require_wanted("before the kernels were built")
        try:
            program = build_kernels(self.context, compiled.kernels)
        except OpFailed as error:
            _LOG.info("%s: not compiled for open dimensions: %s", self.name, error)
            return None
        keeps = options.variants is not None
        constants = DeviceConstants(self.context, compiled.constants, keeps_contents=keeps)
        return OpenClOpenModel(self.context, compiled.opened, program, constants)

    def _restored_open(self, model: Model, artifact: Artifact) -> OpenClOpenModel:
        """Restores a model for any lengths of its open dimensions."""
        opened, binary, contents = read_open_artifact(artifact)
        program = BuiltProgram.from_binary(self.context, binary)
        constants = DeviceConstants(self.context, contents, keeps_contents=False)
        return OpenClOpenModel(self.context, opened, program, constants)

    def _precision(self, model: Model) -> Precision | None:
        if not model.relaxed:
            return Precision.F32
        return self._settings.choice(PRECISION_VARIABLE, Precision)

    @property
    def _kernel_set(self) -> KernelSet:
        return self._settings.choice(KERNELS_VARIABLE, KernelSet) or KernelSet.ALL

    def _built(
        self, compiled: Compiled, processes: HelperProcesses, *, is_measured: bool
    ) -> tuple[Executable, BuiltProgram, ImprovementBuild | None]:
        """Builds the program; also returns what improves the step later, if there is something.

        Uses the persistent kernel if it is measured to be faster than single calls.
        """
        if is_measured and compiled.persistent is not None:
            try:
                return select_faster(self.context, compiled, self.choices, processes)
            except DeadObject:
                raise
            except Error as error:
                _LOG.info("%s: the persistent kernel cannot be used: %s", self.name, error)
        return compiled.executable, build_kernels(self.context, compiled.kernels, processes), None

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> OpenClPreparedModel:
        """See `Device.prepare_model_from_cache`."""
        executable, binary, constants, improvement = read_artifact(artifact)
        program = BuiltProgram.from_binary(self.context, binary)
        build = None if improvement is None else ImprovementBuild(self.context, improvement)
        return self._prepared(executable, program, constants, options, build)

    def _prepared(
        self,
        executable: Executable,
        program: BuiltProgram,
        constants: np.ndarray,
        options: PrepareOptions,
        build: ImprovementBuild | None,
    ) -> OpenClPreparedModel:
        """Returns the prepared model; ends what improves it later if that fails."""
        try:
            kept = DeviceConstants(self.context, constants, keeps_contents=bool(options.cache_key))
            prepared = OpenClPreparedModel(self.context, executable, program, kept, improvement=build)
        except BaseException:
            if build is not None:
                build.close()
            raise
        if build is not None:
            build.improve(prepared)
        return prepared

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`."""
        uses = described_uses(description, self._operand_of)
        size_bytes = bytes_for(self.name, uses, description.dimensions)
        if size_bytes > self.context.facts.max_allocation_bytes:
            raise OutOfMemory(
                f"{self.name} allocates at most {self.context.facts.max_allocation_bytes} bytes at once; "
                f"{size_bytes} were requested"
            )
        return OpenClBuffer(self.context, size_bytes)

    def _operand_of(self, role: BufferRole, is_output: bool) -> Operand:
        prepared = role.prepared_model
        if isinstance(prepared, OpenClPreparedModel) and prepared.device is self._context:
            return prepared.operand(role.index, is_output=is_output)
        if isinstance(prepared, SpecializingModel) and prepared.owner is self:
            return prepared.operand(role.index, is_output=is_output)
        raise BadData(f"{self.name}: a role refers to a model that this device did not prepare")


#: The device that `get_ready` created, for the next `create`.
_READY: Final[list[OpenClDevice]] = []


def get_ready() -> None:
    """Finds the device for the next `create`, and imports what its first model needs.

    Nothing is opened, so the device may wait in a process that is perhaps never used.

    Raises:
        UnavailableDevice: see `create`.
    """
    device = create()
    for module in _NEEDED_AT_FIRST:
        importlib.import_module(module)
    _ = device.version
    _READY.append(device)


def create() -> OpenClDevice:
    """Creates the device; called by `neurald.hal.registry`.

    NEURALD_OPENCL_DEVICE selects the device; by default it is the best one.

    Raises:
        UnavailableDevice: pyopencl, a platform or a device is missing; the message says what to
            install.
    """
    if _READY:
        return _READY.pop()
    settings = process_settings()
    discovery = discover(settings)
    for skipped in discovery.skipped:
        _LOG.info("OpenCL %s skipped: %s", skipped.name, skipped.reason)
    return OpenClDevice(choose(discovery, settings.text(DEVICE_VARIABLE)), settings=settings)
