"""CPU device: the fallback for all others, and the baseline of performance figures."""

import os
from collections.abc import Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import llvmlite

from neurald._version import __version__
from neurald.drivers.cpu.target.target import TARGET_VARIABLE, THREADS_VARIABLE, Target, host_target
from neurald.drivers.settings import Settings
from neurald.hal.cache.sources import sources_digest
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    BufferRole,
    CacheFilesNeeded,
    Capabilities,
    CompileResult,
    InputShapes,
    OpenDevice,
    Performance,
    PrepareOptions,
    Verdict,
    require_supported,
)
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import numpy_version
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import DeviceType, FeatureLevel, OperandType
from neurald.hal.records import replace

if TYPE_CHECKING:
    # A warm start does not import these.
    from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
    from neurald.drivers.cpu.first_tier.first_tier import FirstTier
    from neurald.drivers.cpu.prepared_model import CpuPreparedModel
    from neurald.drivers.cpu.requested_preparation import AnyPreparedModel
    from neurald.hal.execution.reference_model import ReferenceModel

#: Environment variable that disables compilation: "off" runs everything on references.
COMPILER_VARIABLE = "NEURALD_CPU_COMPILER"
#: Folders whose sources affect compiled code. References in `hal` fold constants.
_SOURCES = ("drivers/compiler", "drivers/cpu", "hal")
#: Variables without effect on compiled code, or whose effect the version covers otherwise.
_IRRELEVANT_VARIABLES = frozenset({COMPILER_VARIABLE, TARGET_VARIABLE, THREADS_VARIABLE})

#: Performance figures are relative to the CPU device.
_UNIT = Performance(exec_time=1.0, power_usage=1.0)
_CAPABILITIES = Capabilities(
    operand_performance=MappingProxyType(dict.fromkeys(OperandType, _UNIT)),
    relaxed_float32_scalar=_UNIT,
    relaxed_float32_tensor=_UNIT,
    if_performance=_UNIT,
    while_performance=_UNIT,
)


class CpuDevice(OpenDevice):
    """Implements `neurald.hal.device.Device`.

    Operations with a lowering are compiled; all others run on NumPy references.

    Args:
        compiles: False runs everything on references.
        settings: the driver's settings; None takes those of this process.
    """

    name = "cpu"
    type = DeviceType.CPU
    is_remote = False
    feature_level = FeatureLevel.LEVEL_8
    extensions = ("neurald.tflite",)
    #: See `neurald.hal.compiling.contract.SparesImports`.
    spares_imports = True

    def __init__(self, *, compiles: bool = True, settings: Settings | None = None) -> None:
        self.compiles = compiles
        self._settings = process_settings() if settings is None else settings

    @cached_property
    def _target(self) -> Target:
        return host_target(self._settings)

    def _threads(self, options: PrepareOptions) -> int:
        # A cold start imports this beside the process that it has started to compile.
        from neurald.drivers.cpu.native.thread_pool import thread_count

        return thread_count(options.threads, self._settings)

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        """See `Device.cache_files_needed`.

        There is a file with the executable and its code, and one with the constants.
        """
        return CacheFilesNeeded(model=1, data=1) if self.compiles else CacheFilesNeeded()

    @property
    def version(self) -> str:
        """See `Device.version`.

        The version covers everything that affects compiled code besides the model and the options.
        llvmlite's version determines that of LLVM.
        """
        return self._compiler_version if self.compiles else self._reference_version

    @cached_property
    def _reference_version(self) -> str:
        return f"neurald {__version__}, numpy {numpy_version()}"

    @cached_property
    def _compiler_version(self) -> str:
        parts = [
            self._reference_version,
            f"sources {sources_digest(*_SOURCES)}",
            f"llvmlite {llvmlite.__version__}",
            self._target.name,
            self._settings.description(without=_IRRELEVANT_VARIABLES),
        ]
        return ", ".join(filter(None, parts))

    @property
    def executions_at_once(self) -> int:
        """See `RunsConcurrently`: one execution per core."""
        return len(os.sched_getaffinity(0))

    def capabilities(self) -> Capabilities:
        """Returns 1.0 for everything, by definition."""
        return _CAPABILITIES

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """Returns ok for operations that have a reference.

        Control flow is refused if its graphs contain operations of a vendor extension.
        """
        # A start from the cache only asks if lengths are open.
        from neurald.hal.execution.reference_support import supported_by_references

        return supported_by_references(model, self)

    def prepare_model(self, model: Model, options: PrepareOptions) -> "AnyPreparedModel":
        """See `Device.prepare_model`.

        Models with unspecified dimensions are compiled by executions.
        """
        options.require_time()
        require_supported(self, model)
        if not self.compiles:
            from neurald.hal.execution.reference_model import ReferenceModel

            return ReferenceModel(model)
        from neurald.drivers.cpu.requested_preparation import RequestedPreparation

        # What lives as long as the model must not keep the first tier.
        lasting = replace(options, first_tier=None)
        threads = self._threads(options)
        requested = RequestedPreparation(self, self._target, lambda: self.first_tier, lasting, threads)
        prepared = requested.prepare(model, options.first_tier)
        options.require_wanted("while the model was prepared")
        return prepared

    @cached_property
    def first_tier(self) -> "FirstTier":
        """Binds models to the kernels of the first tier."""
        from neurald.drivers.cpu.first_tier.first_tier import FirstTier

        return FirstTier(self, self._target)

    def compile_common(self) -> Artifact:
        """See `CompilesCommonCode.compile_common`: compiles the kernels of the first tier."""
        from neurald.drivers.cpu.first_tier.library import compile_library

        return compile_library(self._target)

    def prepare_first_tier(
        self, model: Model, options: PrepareOptions
    ) -> "CpuPreparedModel | ReferenceModel | SpecializingModel | None":
        """See `HasFirstTier.prepare_first_tier`.

        Models with unspecified dimensions are bound by executions, for each set of input shapes.
        Until the library is compiled, everything runs on references.
        """
        options.require_time()
        if not self.compiles or not model.main.operations:
            return None
        threads = self._threads(options)
        if all(model.main.operands[index].is_fully_specified for index in model.main.inputs):
            return self.first_tier.prepare(model, threads, options.shared)
        return self.first_tier.prepare_open(model, threads, options.shared)

    def get_ready_to_compile(self, *, lasts: bool) -> None:
        """See `CompilesApart.get_ready_to_compile`.

        Imports the compiler. If the process lasts, it also compiles the step program, which
        otherwise is compiled beside the kernels of a model.
        """
        if self.compiles:
            import neurald.drivers.cpu.in_process
            import neurald.drivers.cpu.isolated
            import neurald.drivers.cpu.native.objects.elf_linker
            import neurald.drivers.cpu.native.objects.kernel_store
            import neurald.drivers.cpu.preparation  # noqa: F401
            from neurald.drivers.cpu.native.objects.llvm import TargetMachine, leave_out_passes

            leave_out_passes()
            from neurald.drivers.cpu.native.thread_pool import process

            if lasts:
                process.step_program(self._target)
            else:
                TargetMachine.of(self._target)

    def compile(
        self, model: Model, shapes: InputShapes | None, options: PrepareOptions, *, is_open: bool = False
    ) -> CompileResult:
        """See `CompilesApart.compile`."""
        from neurald.drivers.cpu.in_process import InProcessPreparation
        from neurald.drivers.cpu.isolated import to_compiled, to_compiled_open

        preparation = InProcessPreparation(
            target=self._target, threads=1, keeps_artifact=True, shared=options.shared
        )
        if is_open:
            return to_compiled_open(preparation.compile_open(model, shapes or {}))
        return to_compiled(preparation.prepare(model, shapes))

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> "CpuPreparedModel":
        """See `Device.prepare_model_from_cache`."""
        if not self.compiles:
            raise BadData(f"{self.name} does not compile, so it cannot load an artifact")
        from neurald.drivers.cpu.data_dependent.bounded_model import whole_model
        from neurald.drivers.cpu.loading import ArtifactLoader

        return whole_model(
            ArtifactLoader(self._target, self._threads(options)).restore(artifact),
            keeps_artifact=bool(options.cache_key),
            artifact=artifact,
        )

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`. Allocates host memory, so the size must be known."""
        from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
        from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
        from neurald.drivers.cpu.prepared_model import CpuPreparedModel
        from neurald.hal.buffers.tracked_buffer import described_uses, host_memory_for
        from neurald.hal.execution.reference_model import ReferenceModel

        def operand_of(role: BufferRole, is_output: bool) -> Operand:
            prepared = role.prepared_model
            if not isinstance(prepared, CpuPreparedModel | ReferenceModel | ValueVariants) and not (
                isinstance(prepared, SpecializingModel) and isinstance(prepared.owner, CpuDevice)
            ):
                raise BadData(f"{self.name}: a role refers to a model that this device did not prepare")
            return prepared.operand(role.index, is_output=is_output)

        return host_memory_for(self.name, described_uses(description, operand_of), description.dimensions)


def process_settings() -> Settings:
    """Returns the environment variables of this process that affect the CPU driver."""
    return Settings("NEURALD_CPU_", THREADS_VARIABLE)


def create() -> CpuDevice:
    """Creates the CPU device; called by `neurald.hal.registry`.

    Raises:
        BadData: NEURALD_CPU_COMPILER is neither on nor off.
    """
    settings = process_settings()
    wanted = settings.text(COMPILER_VARIABLE) or "on"
    if wanted not in ("on", "off"):
        raise BadData(f"{COMPILER_VARIABLE} is {wanted!r}; expected on or off")
    return CpuDevice(compiles=wanted == "on", settings=settings)


def get_ready() -> None:
    """Loads the native functions of executions, if the package has them for this processor."""
    from neurald.drivers.cpu.native.thread_pool import process

    process.load_step_program()
